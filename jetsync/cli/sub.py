"""``jetsync sub``: print messages as they come, live or out of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jetsync._counted import counted
from jetsync._printable import printable
from jetsync.cli import values
from jetsync.cli.failure import UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    args = invocation.args
    if args.stream is None and (args.since or args.from_seq or args.last_per_subject or args.new):
        raise UsageError("--since, --from-seq, --last-per-subject and --new go with --stream.")
    if args.stream is not None and args.queue:
        raise UsageError("--queue does not go with --stream: every reader of a stream gets it all.")
    if args.stream is None and args.subject is None:
        raise UsageError("give a SUBJECT, or --stream.")
    with _messages(invocation) as incoming:
        for number, msg in enumerate(incoming, 1):
            _print(invocation, number, msg)
            if number == args.count:
                return


@contextmanager
def _messages(invocation: Invocation) -> Iterator[Iterator[Any]]:
    args = invocation.args
    if args.stream is None:
        with invocation.connect().subscribe(args.subject, queue=args.queue) as subscription:
            invocation.connect().flush()
            invocation.out.note(f"listening on {args.subject!r}")
            yield iter(subscription)
        return
    options: dict[str, Any] = {"filter_subjects": args.subject, "headers_only": args.headers_only}
    if args.from_seq:
        options.update(deliver_policy="by_start_sequence", opt_start_seq=args.from_seq)
    elif args.since:
        options.update(deliver_policy="by_start_time", opt_start_time=args.since)
    elif args.last_per_subject:
        options.update(deliver_policy="last_per_subject", filter_subjects=args.subject or ">")
    elif args.new:
        options.update(deliver_policy="new")
    js = invocation.jetstream()
    with (
        js.ordered_consumer(args.stream, **options) as consumer,
        consumer.messages() as messages,
    ):
        invocation.out.note(f"reading stream {args.stream!r}")
        yield iter(messages)


def _print(invocation: Invocation, number: int, msg: Any) -> None:
    args, out = invocation.args, invocation.out
    if args.raw and not out.json:
        out.write(msg.data + b"\n")
        return
    about = msg.metadata if args.stream else None
    more: dict[str, object] = {"reply": msg.reply} if msg.reply and about is None else {}
    if about is not None:
        more = {"stream": about.stream, "seq": about.stream_seq, "time": about.timestamp}
    document = values.message(msg, **more)
    if args.headers_only:
        document = {key: value for key, value in document.items() if not key.startswith("data")}

    def text() -> str:
        place = f"#{number}" if about is None else f"{about.stream} #{about.stream_seq}"
        title = out.style("bold", f"[{place}] {printable(msg.subject)}")
        size = "  " + counted(len(msg.data), "byte", form=",")
        reply = f"  reply {printable(msg.reply)}" if "reply" in more else ""
        data = "" if args.headers_only else values.body_text(msg.data) + "\n"
        return f"{title}{size}{reply}\n{values.header_text(msg)}{data}"

    out.item(document, text)


COMMANDS = (
    Command(
        "sub",
        "print messages as they come, live or out of a stream",
        run,
        (
            argument("SUBJECT", nargs="?", help="subject, also with wildcards (quote them)"),
            argument("--queue", metavar="NAME", help="share the messages in this queue group"),
            argument("--count", type=values.count, metavar="N", help="end after so many messages"),
            argument("--stream", completes="stream", help="read this stream, then what is new"),
            argument(
                "--since", type=values.moment, metavar="TIME", help='start at "1h" ago or a time'
            ),
            argument(
                "--from-seq",
                type=values.count,
                metavar="SEQ",
                help="start at this sequence",
                other=("--start-sequence",),
            ),
            argument(
                "--last-per-subject",
                action="store_true",
                help="begin with the last of each subject",
            ),
            argument("--new", action="store_true", help="only what is stored from now on"),
            argument("-r", "--raw", action="store_true", help="print the data only, as it is"),
            argument("--headers-only", action="store_true", help="print no data"),
        ),
        example="jetsync sub 'orders.>' --count 10\njetsync sub --stream ORDERS --since 1h --json",
    ),
)
