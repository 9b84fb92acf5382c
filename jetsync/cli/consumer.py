"""``jetsync consumer``: consumers, what they have delivered and why they stand still."""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

from jetsync.cli import consumer_find, values
from jetsync.cli import consumer_views as views
from jetsync.cli.config_flags import (
    CONFIG,
    CONSUMER,
    DEFAULTS,
    changed_fields,
    changes,
    config_fields,
)
from jetsync.cli.confirm import FORCE, UNASKED, confirm
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.flags import ALL, NO_SELECT
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS", "explain"]

_STREAM = argument("STREAM", completes="stream", help="name of the stream")
_CONSUMER = argument("CONSUMER", completes="consumer", help="name of the consumer")
_BOTH = (_STREAM, _CONSUMER)
_DELIVER = {
    "all": "all",
    "last": "last",
    "new": "new",
    "subject": "last_per_subject",
    "last_per_subject": "last_per_subject",
}
_TWO_WAYS = "give --pull or --target: a consumer delivers in one of these ways."
_NOT_PUSHED = {
    "deliver_subject": None,
    "deliver_group": None,
    "flow_control": False,
    "idle_heartbeat": 0,
    "rate_limit_bps": 0,
}
_NOT_PULLED = dict.fromkeys(("max_waiting", "max_batch", "max_expires", "max_bytes"))


def _consumer(invocation: Invocation) -> Any:
    args = invocation.args
    return invocation.jetstream().consumer(args.stream, args.consumer)


def _ls(invocation: Invocation) -> None:
    args, js = invocation.args, invocation.jetstream()
    if args.names:
        invocation.out.names(sorted(js.consumer_names(args.stream)), "no consumers")
        return
    found = sorted(js.consumers(args.stream), key=lambda info: info.name)
    invocation.out.show(found, lambda: views.table(found))


def _info(invocation: Invocation) -> None:
    info = _consumer(invocation).cached_info
    invocation.out.show(info, lambda: views.fields(info))


def _add(invocation: Invocation) -> None:
    args = invocation.args
    fields = _fields(invocation)
    if args.pull and fields.get("deliver_subject"):
        raise UsageError(_TWO_WAYS)
    if args.consumer:
        fields["name" if args.ephemeral else "durable_name"] = args.consumer
        if not args.ephemeral:
            fields["name"] = args.consumer
    elif not (args.ephemeral or fields.get("durable_name") or fields.get("name")):
        raise UsageError("give the name of the CONSUMER, or --ephemeral.")
    info = invocation.jetstream().create_consumer(args.stream, **fields).cached_info
    invocation.out.show(info, lambda: views.fields(info))


def _copy(invocation: Invocation) -> None:
    args = invocation.args
    if args.pull and "field_deliver_subject" in vars(args):
        raise UsageError(_TWO_WAYS)
    fields = _fields(invocation)
    before = _consumer(invocation).cached_info.config
    if "deliver_policy" in fields:  # where the other one began means nothing then
        fields = {"opt_start_seq": None, "opt_start_time": None, **fields}
    if "filter_subjects" in fields:
        fields["filter_subject"] = None
    if args.pull:
        fields = {**_NOT_PUSHED, **fields}
    elif "deliver_subject" in fields and not before.deliver_subject:
        fields = {**_NOT_PULLED, **fields}
    fields["name"] = args.destination
    fields["durable_name"] = None if args.ephemeral else args.destination
    js = invocation.jetstream()
    info = js.create_consumer(args.stream, before, **fields).cached_info
    invocation.out.show(info, lambda: views.fields(info))


def _edit(invocation: Invocation) -> None:
    args = invocation.args
    fields = _fields(invocation)
    if not fields:
        raise UsageError("nothing to change: give a flag, or --config.")
    before = _consumer(invocation).cached_info.config
    changed = changed_fields(before, fields)
    if args.dry_run:
        invocation.out.show(changed, changes(before, changed))
        return
    if "filter_subjects" in changed and before.filter_subject:
        changed["filter_subject"] = None
    # Of a consumer that was restored the server answers the first change with what was before it.
    info = invocation.jetstream().update_consumer(args.stream, before, **changed).info()
    invocation.out.show(info, lambda: views.fields(info))


def _fields(invocation: Invocation) -> dict[str, Any]:
    from jetsync.jetstream.config.consumer import ConsumerConfig

    args = invocation.args
    fields = config_fields(args, ConsumerConfig)
    deliver = getattr(args, "deliver", None)
    if deliver in _DELIVER:
        fields["deliver_policy"] = _DELIVER[deliver]
    elif deliver is not None and deliver.isascii() and deliver.isdigit():
        fields.update(deliver_policy="by_start_sequence", opt_start_seq=int(deliver))
    elif deliver is not None:
        fields.update(deliver_policy="by_start_time", opt_start_time=_moment(deliver))
    return fields


def _rm(invocation: Invocation) -> None:
    args = invocation.args
    confirm(invocation, f"Delete consumer {args.consumer} of stream {args.stream}?")
    invocation.jetstream().delete_consumer(args.stream, args.consumer)
    invocation.out.show({"deleted": args.consumer}, f"deleted consumer {args.consumer}")


def _next(invocation: Invocation) -> None:
    args, out = invocation.args, invocation.out
    consumer = _consumer(invocation)
    for _ in range(args.count):
        msg = consumer.next(args.wait)
        if args.raw and not out.json:
            out.write(msg.data + b"\n")
        else:
            out.item(views.delivered(msg), partial(views.delivered_text, out, msg))
        if args.nak:
            msg.nak()
        elif args.term:
            msg.term()
        elif not args.no_ack:
            msg.ack_sync()


def _pause(invocation: Invocation) -> None:
    args = invocation.args
    until = _future(args.until)
    invocation.jetstream().pause_consumer(args.stream, args.consumer, until)
    invocation.out.show(
        {"paused_until": until}, f"paused {args.consumer} until {values.format_time(until)}"
    )


def _future(text: str) -> datetime:
    try:
        return datetime.now(timezone.utc) + timedelta(seconds=values.duration(text))
    except argparse.ArgumentTypeError:
        return _moment(text)


def _moment(text: str) -> datetime:
    try:
        return values.moment(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error)) from None


def _resume(invocation: Invocation) -> None:
    args = invocation.args
    invocation.jetstream().resume_consumer(args.stream, args.consumer)
    invocation.out.show({"resumed": args.consumer}, f"resumed {args.consumer}")


def _report(invocation: Invocation) -> None:
    found = sorted(
        invocation.jetstream().consumers(invocation.args.stream),
        key=lambda info: (-info.num_pending, info.name),
    )
    invocation.out.show(found, lambda: views.report(found))


def _leader_step_down(invocation: Invocation) -> None:
    args = invocation.args
    cluster = _consumer(invocation).cached_info.cluster
    if cluster is None or not cluster.replicas:
        raise CommandError(f"consumer {args.consumer} has one replica: there is no other leader.")
    invocation.jetstream().step_down_consumer_leader(args.stream, args.consumer)
    invocation.out.show(
        {"stepped_down": args.consumer}, f"the leader of consumer {args.consumer} stepped down"
    )


def _unpin(invocation: Invocation) -> None:
    args = invocation.args
    invocation.jetstream().unpin_consumer(args.stream, args.consumer, args.group)
    invocation.out.show({"unpinned": args.group}, f"unpinned group {args.group}")


def _reset(invocation: Invocation) -> None:
    args = invocation.args
    seq = args.seq or args.sequence
    where = "what is not acknowledged" if seq is None else f"sequence {seq:,}"
    confirm(invocation, f"Let consumer {args.consumer} deliver again from {where} on?")
    info = invocation.jetstream().reset_consumer(args.stream, args.consumer, seq)
    invocation.out.show(info, lambda: views.fields(info))


def explain(invocation: Invocation) -> None:
    """Say in one sentence why nothing comes."""
    args = invocation.args
    reason = _consumer(invocation).explain_stall()
    said = reason or f"nothing is in the way of consumer {args.consumer}"
    invocation.out.show({"stalled": reason is not None, "reason": reason}, said)


_DELIVER_FLAG = argument(
    "--deliver",
    metavar="WHAT",
    help="all, last, new, subject (the last of each), a sequence, a time or a duration",
)

COMMANDS = (
    Command(
        "ls",
        "list the consumers of a stream",
        _ls,
        (
            _STREAM,
            argument("-n", "--names", action="store_true", help="names only"),
            ALL,
            NO_SELECT,
        ),
        example="jetsync consumer ls ORDERS",
        aliases=("list",),
        other=("l",),
    ),
    Command(
        "info",
        "show configuration and state of a consumer",
        _info,
        (*_BOTH, ALL, NO_SELECT),
        example="jetsync consumer info ORDERS billing",
        other=("nfo", "state"),
    ),
    Command(
        "add",
        "create a consumer",
        _add,
        (
            _STREAM,
            argument("CONSUMER", nargs="?", help="its name; it is durable"),
            argument("--ephemeral", action="store_true", help="not durable"),
            argument("--pull", action="store_true", help="clients pull from it (the default)"),
            _DELIVER_FLAG,
            DEFAULTS,
            CONFIG,
            *CONSUMER,
        ),
        example="jetsync consumer add ORDERS billing --filter orders.new --wait 1m",
        aliases=("create",),
        other=("new",),
    ),
    Command(
        "edit",
        "change the configuration of a consumer",
        _edit,
        (
            *_BOTH,
            argument("--dry-run", action="store_true", help="show what would change"),
            UNASKED,
            CONFIG,
            *CONSUMER,
        ),
        example="jetsync consumer edit ORDERS billing --max-pending 5000",
        aliases=("update",),
    ),
    *consumer_find.COMMANDS,
    Command(
        "copy",
        "create a consumer with the configuration of another",
        _copy,
        (
            *_BOTH,
            argument("DESTINATION", help="name of the new consumer"),
            argument("--ephemeral", action="store_true", help="not durable"),
            argument("--pull", action="store_true", help="clients pull from it, also if pushed"),
            _DELIVER_FLAG,
            *CONSUMER,
        ),
        example="jetsync consumer copy ORDERS billing billing2 --deliver new",
        aliases=("cp",),
        description="Create a consumer with the configuration of another of the same stream. It "
        "begins where that one began: what was delivered and acknowledged is not copied.",
    ),
    Command(
        "rm",
        "delete a consumer",
        _rm,
        (*_BOTH, FORCE),
        example="jetsync consumer rm ORDERS billing --force",
        aliases=("delete",),
        other=("del",),
    ),
    Command(
        "next",
        "take messages from a pull consumer, print and acknowledge them",
        _next,
        (
            *_BOTH,
            argument("--count", type=values.count, default=1, help="how many (default: 1)"),
            argument("--no-ack", action="store_true", help="do not acknowledge"),
            argument("--nak", action="store_true", help="have them delivered again"),
            argument("--term", action="store_true", help="have them delivered no more"),
            argument("--ack", action="store_true", help=argparse.SUPPRESS),  # as ``nats`` names it
            argument(
                "--wait", type=values.duration, metavar="TIME", help="for each (default: --timeout)"
            ),
            argument("-r", "--raw", action="store_true", help="print the data only, as it is"),
        ),
        example="jetsync consumer next ORDERS billing --count 5",
    ),
    Command(
        "pause",
        "deliver nothing for some time, or until a point in time",
        _pause,
        (*_BOTH, argument("UNTIL", help='"1h", or a time such as 2026-01-31T12:00:00Z'), UNASKED),
        example="jetsync consumer pause ORDERS billing 1h",
    ),
    Command(
        "resume",
        "deliver again after a pause",
        _resume,
        (*_BOTH, UNASKED),
        example="jetsync consumer resume ORDERS billing",
    ),
    Command(
        "report",
        "show progress and lag of all consumers of a stream, the slowest first",
        _report,
        (_STREAM,),
        example="jetsync consumer report ORDERS",
    ),
    Command(
        "step-down",
        "make the leader of a consumer hand over to another replica",
        _leader_step_down,
        (*_BOTH, UNASKED),
        example="jetsync consumer step-down ORDERS billing",
        other=("stepdown", "elect", "cluster step-down", "cluster down"),
    ),
    Command(
        "unpin",
        "take the pin of a priority group from the client that has it",
        _unpin,
        (*_BOTH, argument("GROUP", help="name of the group"), UNASKED),
        example="jetsync consumer unpin ORDERS billing workers",
    ),
    Command(
        "reset",
        "deliver again, from a sequence or what is not acknowledged",
        _reset,
        (
            *_BOTH,
            argument("SEQ", nargs="?", type=values.count, help="sequence in the stream"),
            argument("--sequence", type=values.count, help=argparse.SUPPRESS),
            FORCE,
        ),
        example="jetsync consumer reset ORDERS billing 100 --force",
    ),
    Command(
        "explain",
        "say in one sentence why nothing comes",
        explain,
        _BOTH,
        example="jetsync consumer explain ORDERS billing",
    ),
)
