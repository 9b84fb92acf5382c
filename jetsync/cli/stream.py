"""``jetsync stream``: streams, their messages and their health."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from jetsync._counted import counted
from jetsync.cli import stream_data, values
from jetsync.cli import stream_views as views
from jetsync.cli.config_flags import (
    CONFIG,
    DEFAULTS,
    REMOVALS,
    STREAM,
    changed_fields,
    changes,
    config_fields,
    is_given,
)
from jetsync.cli.confirm import FORCE, UNASKED, confirm
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.flags import ALL, NO_SELECT
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Table
from jetsync.cli.registry import Argument, Command, argument
from jetsync.errors import MessageNotFoundError

__all__ = ["COMMANDS"]

_STREAM = argument("STREAM", completes="stream", help="name of the stream")


def _ls(invocation: Invocation) -> None:
    args, js = invocation.args, invocation.jetstream()
    if args.names:
        invocation.out.names(sorted(js.stream_names(args.subject)), views.EMPTY)
        return
    found = sorted(js.streams(args.subject), key=lambda info: info.config.name)
    invocation.out.show(found, lambda: views.table(found))


def _info(invocation: Invocation) -> None:
    stream = invocation.jetstream().stream(invocation.args.stream)
    invocation.out.show(stream.cached_info, lambda: views.fields(stream.cached_info))


def _add(invocation: Invocation) -> None:
    from jetsync.jetstream.config.stream import StreamConfig

    fields = config_fields(invocation.args, StreamConfig)
    if invocation.args.stream:
        fields["name"] = invocation.args.stream
    if not fields.get("name"):
        raise UsageError("give the name of the STREAM, or a --config with one.")
    info = invocation.jetstream().create_stream(**fields).cached_info
    invocation.out.show(info, lambda: views.fields(info))


def _edit(invocation: Invocation) -> None:
    from jetsync.jetstream.config.stream import StreamConfig

    args, js = invocation.args, invocation.jetstream()
    if not is_given(args):
        raise UsageError("nothing to change: give a flag, or --config.")
    before = js.stream(args.stream).cached_info.config
    fields = config_fields(args, StreamConfig, before)
    fields["name"] = before.name
    changed = changed_fields(before, fields)
    if args.dry_run:
        invocation.out.show(changed, changes(before, changed))
        return
    info = js.update_stream(before, **changed).cached_info
    invocation.out.show(info, lambda: views.fields(info))


def _rm(invocation: Invocation) -> None:
    name = invocation.args.stream
    confirm(invocation, f"Delete stream {name} with all of its messages?")
    invocation.jetstream().delete_stream(name)
    invocation.out.show({"deleted": name}, f"deleted stream {name}")


def _purge(invocation: Invocation) -> None:
    args = invocation.args
    what = f"messages of {args.subject!r}" if args.subject else "all messages"
    confirm(invocation, f"Remove {what} from stream {args.stream}?")
    stream = invocation.jetstream().stream(args.stream)
    number = stream.purge(subject=args.subject, keep=args.keep, seq=args.seq)
    invocation.out.show(
        {"purged": number}, f"removed {counted(number, 'message', form=',')} from {args.stream}"
    )


def _rmm(invocation: Invocation) -> None:
    args = invocation.args
    confirm(invocation, f"Remove message {args.seq:,} of stream {args.stream}?")
    invocation.jetstream().stream(args.stream).delete_msg(args.seq, secure=not args.no_erase)
    invocation.out.show(
        {"deleted": args.seq}, f"removed message {args.seq:,} of stream {args.stream}"
    )


def _get(invocation: Invocation) -> None:
    args = invocation.args
    if (args.seq is None) == (args.last_for is None):
        raise UsageError("give either a sequence or --last-for SUBJECT.")
    stream = invocation.jetstream().stream(args.stream)
    if args.last_for is not None:
        msg = stream.get_last_msg(args.last_for)
    else:
        msg = stream.get_msg(args.seq)
    if args.raw and not invocation.out.json:
        invocation.out.write(msg.data)
        return
    invocation.out.item(views.stored(msg), lambda: views.stored_text(invocation.out, msg))


def _view(invocation: Invocation) -> None:
    args = invocation.args
    stream = invocation.jetstream().stream(args.stream)
    state = stream.cached_info.state
    first = args.seq or max(state.first_seq, state.last_seq - args.count + 1)
    found: list[Any] = []
    if state.messages:
        try:
            found = _read(stream, first, args.count, args.subject)
        except MessageNotFoundError:
            found = []
    out = invocation.out
    for msg in found:
        out.item(views.stored(msg), partial(views.stored_text, out, msg))
    if not found:
        invocation.out.note("no such messages")


def _read(stream: Any, first: int, count: int, subject: str | None) -> list[Any]:
    found: list[Any] = []
    seq = first
    while len(found) < count:
        try:
            msg = stream.get_msg(seq, next_by_subject=subject or ">")
        except MessageNotFoundError:
            break
        found.append(msg)
        seq = msg.seq + 1
    return found


def _subjects(invocation: Invocation) -> None:
    args = invocation.args
    stream = invocation.jetstream().stream(args.stream)
    found = stream.info(subjects_filter=args.only or args.filter).state.subjects or {}
    by_name = args.sort in ("name", "subjects")
    rows = sorted(found.items(), key=lambda item: (0 if by_name else -item[1], item[0]))
    if args.reverse:
        rows.reverse()
    if args.names:
        invocation.out.names([subject for subject, _ in rows], "no subjects")
        return
    invocation.out.show(dict(rows), Table(("SUBJECT", ">MESSAGES"), rows, "no subjects"))


def _report(invocation: Invocation) -> None:
    args = invocation.args
    found = [
        info
        for info in invocation.jetstream().streams(args.subject)
        if args.cluster is None or (info.cluster and info.cluster.name == args.cluster)
    ]
    found.sort(key=lambda info: (_RANKS[args.order](info), info.config.name))
    invocation.out.show(found, lambda: views.report(found, raw=args.raw))


_RANKS: dict[str, Callable[[Any], object]] = {
    "bytes": lambda info: -info.state.bytes,
    "consumers": lambda info: -info.state.consumer_count,
    "messages": lambda info: -info.state.messages,
    "name": lambda info: info.config.name,
    "storage": lambda info: info.config.storage,
}


def _order(name: str, short: str, help: str) -> Argument:
    """A flag of a report for its order; the last one of a line wins."""
    return argument(
        short,
        f"--{name}",
        action="store_const",
        const=name,
        dest="order",
        default="bytes",
        help=help,
    )


def _gaps(invocation: Invocation) -> None:
    stream = invocation.jetstream().stream(invocation.args.stream)
    state = stream.info(deleted_details=True).state
    gaps: list[tuple[int, int]] = []
    for seq in sorted(state.deleted or []):
        if gaps and gaps[-1][1] == seq - 1:
            gaps[-1] = (gaps[-1][0], seq)
        else:
            gaps.append((seq, seq))
    rows = [(first, last, last - first + 1) for first, last in gaps]
    data = [{"first_seq": first, "last_seq": last, "messages": size} for first, last, size in rows]
    invocation.out.show(data, Table((">FIRST", ">LAST", ">MESSAGES"), rows, "no gaps"))


def _seal(invocation: Invocation) -> None:
    name, js = invocation.args.stream, invocation.jetstream()
    confirm(invocation, f"Seal stream {name}? It can never take or lose a message again.")
    info = js.update_stream(js.stream(name).cached_info.config, sealed=True).cached_info
    invocation.out.show(info, f"sealed stream {name}")


def _leader_step_down(invocation: Invocation) -> None:
    name, js = invocation.args.stream, invocation.jetstream()
    if js.stream(name).cached_info.config.num_replicas < 2:
        raise CommandError(f"stream {name} has one replica, so there is no other leader.")
    js.step_down_stream_leader(name)
    invocation.out.show({"stepped_down": name}, f"the leader of stream {name} stepped down")


COMMANDS = (
    Command(
        "ls",
        "list streams",
        _ls,
        (
            ALL,
            argument("--subject", metavar="FILTER", help="only those that store such subjects"),
            argument("-n", "--names", action="store_true", help="names only"),
        ),
        example="jetsync stream ls --subject 'orders.>'",
        aliases=("list",),
        other=("l",),
    ),
    Command(
        "info",
        "show configuration and state of a stream",
        _info,
        (_STREAM, ALL, NO_SELECT),
        example="jetsync stream info ORDERS --json",
        other=("nfo", "i", "state"),
    ),
    Command(
        "add",
        "create a stream",
        _add,
        (
            argument("STREAM", nargs="?", help="name of the stream"),
            DEFAULTS,
            CONFIG,
            *STREAM,
        ),
        example="jetsync stream add ORDERS --subjects 'orders.>' --replicas 3 --max-age 7d",
        aliases=("create",),
        other=("new",),
    ),
    Command(
        "edit",
        "change the configuration of a stream",
        _edit,
        (
            _STREAM,
            argument("--dry-run", action="store_true", help="show what would change"),
            UNASKED,
            CONFIG,
            *STREAM,
            *REMOVALS,
        ),
        example="jetsync stream edit ORDERS --max-bytes 10GiB --dry-run",
        aliases=("update",),
    ),
    Command(
        "rm",
        "delete a stream and its messages",
        _rm,
        (_STREAM, FORCE),
        example="jetsync stream rm ORDERS --force",
        aliases=("delete",),
        other=("del",),
    ),
    Command(
        "purge",
        "remove messages from a stream",
        _purge,
        (
            _STREAM,
            argument("--subject", metavar="FILTER", help="only messages of this subject"),
            argument("--keep", type=int, metavar="N", help="keep the last N of them"),
            argument("--seq", type=int, metavar="SEQ", help="only those before this sequence"),
            FORCE,
        ),
        example="jetsync stream purge ORDERS --subject orders.test --force",
    ),
    Command(
        "get",
        "print one message of a stream",
        _get,
        (
            _STREAM,
            argument("SEQ", nargs="?", type=values.count, help="its sequence"),
            argument("-S", "--last-for", metavar="SUBJECT", help="the last one of a subject"),
            argument("-r", "--raw", action="store_true", help="print the data only, as it is"),
        ),
        example="jetsync stream get ORDERS 17",
    ),
    Command(
        "rmm",
        "remove one message of a stream, and overwrite it on the disk",
        _rmm,
        (
            _STREAM,
            argument("SEQ", type=values.count, help="its sequence"),
            argument("--no-erase", action="store_true", help="do not overwrite it"),
            FORCE,
        ),
        example="jetsync stream rmm ORDERS 17 --force",
    ),
    Command(
        "view",
        "print messages of a stream in order",
        _view,
        (
            _STREAM,
            argument("SEQ", nargs="?", type=values.count, help="first one (default: the last ten)"),
            argument("--count", type=values.count, default=10, help="how many (default: 10)"),
            argument("--subject", metavar="FILTER", help="only messages of this subject"),
        ),
        example="jetsync stream view ORDERS 1 --count 3",
    ),
    Command(
        "subjects",
        "list the subjects of a stream with their numbers of messages",
        _subjects,
        (
            _STREAM,
            argument("FILTER", nargs="?", default=">", help="only subjects like this"),
            argument("--filter", dest="only", help=argparse.SUPPRESS),
            argument(
                "--sort",
                choices=("messages", "name", "count", "subjects"),
                default="messages",
                help="the most messages first, or by name (default: messages)",
            ),
            argument("-R", "--reverse", action="store_true", help="the other way round"),
            argument("-n", "--names", action="store_true", help="subjects only"),
        ),
        example="jetsync stream subjects ORDERS",
        other=("subj",),
    ),
    Command(
        "report",
        "show size, replicas and health of all streams, the largest first",
        _report,
        (
            ALL,
            argument("--subject", metavar="FILTER", help="only those that store such subjects"),
            argument("--cluster", metavar="NAME", help="only those in this cluster"),
            _order("consumers", "-o", "those with the most consumers first"),
            _order("messages", "-m", "those with the most messages first"),
            _order("name", "-n", "by name"),
            _order("storage", "-t", "by storage"),
            argument("-r", "--raw", action="store_true", help="bytes as numbers, without units"),
        ),
        example="jetsync stream report --messages",
    ),
    Command(
        "gaps",
        "list the runs of deleted messages in a stream",
        _gaps,
        (_STREAM,),
        example="jetsync stream gaps ORDERS",
    ),
    Command(
        "seal",
        "make a stream read-only for ever",
        _seal,
        (_STREAM, FORCE),
        example="jetsync stream seal ORDERS --force",
    ),
    *stream_data.COMMANDS,
    Command(
        "step-down",
        "make the leader of a stream hand over to another replica",
        _leader_step_down,
        (_STREAM, UNASKED),
        example="jetsync stream step-down ORDERS",
        other=("stepdown", "sd", "elect", "down", "d", "cluster step-down", "cluster down"),
    ),
)
