"""``jetsync pub``: publish messages."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from jetsync._counted import counted
from jetsync.cli import templates, values
from jetsync.cli.failure import UsageError
from jetsync.cli.flags import HEADER
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    args = invocation.args
    if args.schedule_dest is not None and args.schedule_subject is None:
        # As the nats command has it: SUBJECT is where the schedule is stored.
        args.subject, args.schedule_subject = args.schedule_dest, args.subject
    if args.body is None and (args.force_stdin or args.send_on):
        args.body = "-"
    elif args.file is None:
        args.body = values.piped_body(invocation.out, args.body)
    scheduled = args.at is not None or args.every is not None
    stored = args.js or args.id is not None or args.ttl is not None or scheduled
    _check(args, scheduled)
    if args.file is not None:
        from jetsync.cli.copy import publish_file

        publish_file(invocation, args.file, args.subject, args.subject_column, stored=stored)
        return
    if stored and args.reply:
        raise UsageError("--reply has no meaning with --js: the server's confirmation goes there.")
    templates.check(args.subject, _typed(args), args.id or "", *args.header)
    values.headers(args.header)
    nc = invocation.connect()
    js = invocation.jetstream() if stored else None
    number = size = 0
    for number, body in enumerate(_bodies(args), 1):
        if number > 1 and args.sleep:
            time.sleep(args.sleep)
        subject = templates.fill(args.subject, number)
        data = body if isinstance(body, bytes) else _filled(body, number)
        size += len(data)
        given = values.headers(templates.fill(header, number) for header in args.header)
        if js is None:
            nc.publish(subject, data, reply=args.reply, headers=given)
            continue
        more: dict[str, Any] = {}
        if args.id is not None:
            more["msg_id"] = templates.fill(args.id, number)
        target = subject
        if scheduled:
            subject = args.schedule_subject or f"{target}.schedules.{uuid.uuid4().hex}"
            more.update(schedule=args.at or args.every, schedule_target=target)
        ack = js.publish(subject, data, headers=given, ttl=args.ttl, **more)
        said = " (a duplicate)" if ack.duplicate else ""
        invocation.out.item(
            {"subject": subject, "stream": ack.stream, "seq": ack.seq, "duplicate": ack.duplicate},
            lambda ack=ack, said=said: f"stored in {ack.stream} as {ack.seq:,}{said}",  # type: ignore[misc]
        )
    if js is None:
        invocation.flush(nc)
        what = counted(number, "message", form=",")
        invocation.out.show(
            {"subject": args.subject, "published": number, "bytes": size},
            f"published {what} to {args.subject!r}",
        )


def _typed(args: Any) -> str:
    """Return the text of the line that is to be sent, "" where it is standard input."""
    return "" if args.body in (None, "-") else args.body


def _bodies(args: Any) -> Iterator[str | bytes]:
    """Iterate over what is to be sent, each ``--count`` times: bytes of standard input, with
    ``--send-on newline`` as its lines come."""
    one: str | bytes
    if args.body != "-":
        given: Iterable[str | bytes] = (_typed(args),)
    elif args.send_on == "newline":
        given = (line.removesuffix(b"\n").removesuffix(b"\r") for line in sys.stdin.buffer)
    else:
        given = (values.read_body("-"),)
    for one in given:
        yield from itertools.repeat(one, args.count)


def _filled(text: str, number: int) -> bytes:
    return templates.fill(text, number).encode("utf-8", "surrogateescape")


def _check(args: Any, scheduled: bool) -> None:
    if args.subject_column is not None and args.file is None:
        raise UsageError("--subject-column goes with --file.")
    if args.send_on is not None and args.body != "-":
        raise UsageError("--send-on goes with a body from standard input: give no BODY.")
    if args.file is not None and (
        args.body is not None
        or scheduled
        or args.count > 1
        or any((args.id, args.header, args.reply, args.sleep, args.ttl is not None))
        or templates.has_places(args.subject)
    ):
        raise UsageError(
            "--file goes with --subject-column and --js only: not with BODY, --send-on, --header, "
            "--reply, --count, --sleep, --id, --ttl, --at and --every, nor with {{Count}} and the "
            "like."
        )
    if args.at is not None and args.every is not None:
        raise UsageError("give either --at or --every.")
    if args.schedule_subject is not None and not scheduled:
        raise UsageError("--schedule-subject goes with --at and --every.")


COMMANDS = (
    Command(
        "pub",
        "publish messages",
        run,
        (
            argument("SUBJECT", help="subject to publish to"),
            argument("BODY", nargs="?", help='data of the message; "-", or a pipe: standard input'),
            argument(
                "--js",
                "-J",
                action="store_true",
                help="wait until a stream has stored it",
                other=("--jetstream",),
            ),
            HEADER,
            argument("--reply", metavar="SUBJECT", help="subject for replies"),
            argument("--count", type=values.count, default=1, help="how many (default: 1)"),
            argument("--sleep", type=values.pause, metavar="TIME", help="pause between messages"),
            argument(
                "--id", metavar="TEXT", help="message id; a stream stores it once (with --js)"
            ),
            argument(
                "--ttl", type=values.duration, metavar="TIME", help="life of the message (--js)"
            ),
            argument(
                "--at",
                other=("--schedule-at", "--schedule-after"),
                type=values.coming,
                metavar="TIME",
                help='let the server publish it then: a time, or "10m" from now (2.12)',
            ),
            argument(
                "--every",
                other=("--schedule-every", "--schedule-cron"),
                type=values.every,
                metavar="TIME",
                help='let the server publish it again and again: "1h", or a cron pattern (2.12)',
            ),
            argument(
                "--schedule-subject",
                metavar="SUBJECT",
                help="where that schedule is stored (default: SUBJECT.schedules.ID)",
            ),
            argument("--schedule-dest", metavar="SUBJECT", help=argparse.SUPPRESS),
            argument("--force-stdin", action="store_true", help=argparse.SUPPRESS),
            argument(
                "--send-on",
                choices=("newline", "eof"),
                help="publish standard input: each line as it comes, or all of it at its end",
            ),
            argument(
                "--file",
                metavar="FILE",
                help="publish each row of a .jsonl, .csv or .parquet file; takes no flags but "
                "--subject-column and --js",
            ),
            argument("--subject-column", metavar="NAME", help="field of a row with its subject"),
        ),
        example="jetsync pub orders.new 'order {{Count}}' --js --count 3\n"
        "jetsync pub orders.new --file orders.jsonl --js\n"
        "jetsync pub orders.remind 'order 7' --at 30m\n"
        "jetsync pub orders.log --send-on newline",
        description="Publish messages. In subject, BODY (but for that of standard input), headers "
        f"and --id these are filled in for each: {templates.HELP}.",
    ),
)
