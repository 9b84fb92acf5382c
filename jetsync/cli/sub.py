"""``jetsync sub``: print messages as they come, live or out of a stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from jetsync._counted import counted
from jetsync._printable import printable
from jetsync.cli import dump, values
from jetsync.cli.failure import UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument
from jetsync.errors import TimeoutError

__all__ = ["COMMANDS"]

_STARTS = ("all", "last", "last_per_subject", "new", "since", "from_seq")
"""Flags that say where reading a stream begins; each of them asks for a stream."""


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    args = invocation.args
    is_stored = _check(args)
    show = _shown(invocation, is_stored)
    number = 0
    with _stored(invocation) if is_stored else _live(invocation) as incoming:
        for msg in incoming:
            if not _is_ignored(args, msg):
                number += 1
                show(number, msg)
            if number == args.count or (args.terminate_at_end and not msg.metadata.num_pending):
                break
    if args.dump not in (None, dump.STDOUT):
        said = counted(number, "message", form=",")
        invocation.out.show({"dumped": number}, f"wrote {said} to {args.dump}")


def _check(args: Any) -> bool:
    """Return whether messages are read out of a stream. Raises UsageError."""
    starts = [name for name in _STARTS if getattr(args, name)]
    if len(starts) > 1:
        both = " or ".join(f"--{name.replace('_', '-')}" for name in starts)
        raise UsageError(f"reading begins at one place: give either {both}.")
    is_stored = args.stream is not None or bool(starts)
    if args.terminate_at_end and not is_stored:
        raise UsageError("--terminate-at-end goes with --stream, or with where to begin in one.")
    if is_stored and args.queue:
        raise UsageError("--queue does not go with --stream: every reader of a stream gets it all.")
    if is_stored and args.inbox:
        raise UsageError("--inbox does not go with a stream: nothing is stored there.")
    if args.timestamp and args.delta_time:
        raise UsageError("give either --timestamp or --delta-time.")
    if args.dump is not None and args.raw:
        raise UsageError("give either --dump or --raw.")
    if args.inbox and args.subject:
        raise UsageError("--inbox takes a subject of its own: give no SUBJECT.")
    if not args.subject and args.stream is None and not args.inbox:
        raise UsageError("give a SUBJECT, or --stream.")
    return is_stored


@contextmanager
def _live(invocation: Invocation) -> Iterator[Iterator[Any]]:
    args, nc = invocation.args, invocation.connect()
    subjects = [nc.new_inbox()] if args.inbox else args.subject
    made = [nc.subscribe(subject, queue=args.queue) for subject in subjects]
    with made[0] if len(made) == 1 else _merged(made) as source:
        nc.flush()
        invocation.out.note(f"listening on {', '.join(map(repr, subjects))}")
        yield _incoming(invocation, source)


def _merged(subscriptions: list[Any]) -> Any:
    from jetsync.cli.merged import Merged

    return Merged(subscriptions)


@contextmanager
def _stored(invocation: Invocation) -> Iterator[Iterator[Any]]:
    args, js = invocation.args, invocation.jetstream()
    no_data = args.headers_only or args.subjects_only
    filters = args.subject or None
    options: dict[str, Any] = {"filter_subjects": filters, "headers_only": no_data}
    if args.from_seq:
        options.update(deliver_policy="by_start_sequence", opt_start_seq=args.from_seq)
    elif args.since:
        options.update(deliver_policy="by_start_time", opt_start_time=args.since)
    elif args.last_per_subject:
        options.update(deliver_policy="last_per_subject", filter_subjects=filters or ">")
    elif args.last or args.new:
        options.update(deliver_policy="last" if args.last else "new")
    name = args.stream or js.stream_name_by_subject(args.subject[0])
    with js.ordered_consumer(name, **options) as consumer, consumer.messages() as messages:
        invocation.out.note(f"reading stream {name!r}")
        is_at_end = args.terminate_at_end and not consumer.cached_info.num_pending
        yield iter(()) if is_at_end else _incoming(invocation, messages)


def _incoming(invocation: Invocation, source: Any) -> Iterator[Any]:
    """Iterate over messages; with ``--wait`` until none came for so long."""
    if invocation.args.wait is None:
        yield from source
        return
    while True:
        try:
            msg = source.next(invocation.args.wait)
        except TimeoutError:
            if invocation.connect().is_connected:
                return
            raise  # a server that is gone is not one that has nothing
        yield msg


def _is_ignored(args: Any, msg: Any) -> bool:
    if not args.ignore_subject:
        return False
    from jetsync.protocol.subjects import subject_matches

    return any(subject_matches(pattern, msg.subject) for pattern in args.ignore_subject)


def _shown(invocation: Invocation, is_stored: bool) -> Callable[[int, Any], None]:
    """Return what shows a message: prints it, or writes it to a file."""
    args, out, began = invocation.args, invocation.out, time.monotonic()
    if args.raw and not out.json:
        return lambda _, msg: out.write(msg.data + b"\n")
    write = None
    if args.dump is not None:
        write = dump.to_stdout(out) if args.dump == dump.STDOUT else dump.to_folder(args.dump)

    def show(number: int, msg: Any) -> None:
        more = _about(args, msg, is_stored, time.monotonic() - began)
        found = values.message(msg, **more)
        if args.headers_only or args.subjects_only:
            found = {key: value for key, value in found.items() if not key.startswith("data")}
        if write is not None:
            write(msg.metadata.stream_seq if is_stored else number, found)
        else:
            out.item(found, lambda: _text(invocation, number, msg, more))

    return show


def _about(args: Any, msg: Any, is_stored: bool, seconds: float) -> dict[str, Any]:
    """Return what is told of a message beside its content."""
    more: dict[str, Any] = {}
    if is_stored:
        about = msg.metadata
        more.update(stream=about.stream, seq=about.stream_seq, time=about.timestamp)
    elif msg.reply:
        more["reply"] = msg.reply
    if args.timestamp and not is_stored:
        more["time"] = datetime.now(timezone.utc)
    if args.delta_time:
        more["since_start"] = round(seconds * 1e9)
    return more


def _text(invocation: Invocation, number: int, msg: Any, more: dict[str, Any]) -> str:
    args, out = invocation.args, invocation.out
    if args.subjects_only:
        return printable(msg.subject)
    place = f"{more['stream']} #{more['seq']}" if "stream" in more else f"#{number}"
    title = out.style("bold", f"[{place}] {printable(msg.subject)}")
    size = "  " + counted(len(msg.data), "byte", form=",")
    reply = f"  reply {printable(msg.reply)}" if "reply" in more else ""
    data = "" if args.headers_only else values.body_text(msg.data) + "\n"
    return f"{_when(args, more)}{title}{size}{reply}\n{values.header_text(msg)}{data}"


def _when(args: Any, more: dict[str, Any]) -> str:
    if args.timestamp:
        return f"{more['time'].strftime('%Y-%m-%d %H:%M:%S.%f')[:-3]} UTC "
    return f"+{more['since_start'] / 1e9:.3f}s " if args.delta_time else ""


COMMANDS = (
    Command(
        "sub",
        "print messages as they come, live or out of a stream",
        run,
        (
            argument("SUBJECT", nargs="*", help="subjects, also with wildcards (quote them)"),
            argument("--queue", metavar="NAME", help="share the messages in this queue group"),
            argument("--count", type=values.count, metavar="N", help="end after so many messages"),
            argument(
                "--wait",
                type=values.pause,
                metavar="TIME",
                help="end when nothing came for so long",
            ),
            argument(
                "--stream",
                completes="stream",
                help="read this stream, then what is new (default, with a flag that says where to "
                "begin: the one that stores SUBJECT)",
            ),
            argument("--all", action="store_true", help="begin with the first message"),
            argument("--last", action="store_true", help="begin with the last message"),
            argument(
                "--last-per-subject",
                action="store_true",
                help="begin with the last of each subject",
            ),
            argument("--new", action="store_true", help="only what is stored from now on"),
            argument(
                "--since", type=values.moment, metavar="TIME", help='begin at "1h" ago or a time'
            ),
            argument(
                "--from-seq",
                type=values.count,
                metavar="SEQ",
                help="begin at this sequence",
                other=("--start-sequence",),
            ),
            argument(
                "-T",
                "--terminate-at-end",
                action="store_true",
                help="end when all that the stream has was printed",
            ),
            argument(
                "-I",
                "--ignore-subject",
                action="append",
                metavar="SUBJECT",
                help="leave these out; may be repeated",
            ),
            argument("-i", "--inbox", action="store_true", help="listen on a new inbox"),
            argument("-r", "--raw", action="store_true", help="print the data only, as it is"),
            argument(
                "--dump",
                metavar="DIR",
                help="write each message as JSON to a file there, with its number or sequence for "
                'a name; "-": to standard output, with a NUL behind each',
            ),
            argument("--headers-only", action="store_true", help="print no data"),
            argument("--subjects-only", action="store_true", help="print subjects only"),
            argument(
                "-t",
                "--timestamp",
                action="store_true",
                help="print when a message came, or when its stream stored it",
            ),
            argument(
                "-d", "--delta-time", action="store_true", help="print the time since the start"
            ),
        ),
        example="jetsync sub 'orders.>' --count 10\n"
        "jetsync sub orders.new orders.paid --dump ./orders\n"
        "jetsync sub --stream ORDERS --since 1h --json\n"
        "jetsync sub 'orders.>' --last-per-subject --terminate-at-end",
    ),
)
