"""``jetsync pub``: publish messages."""

from __future__ import annotations

import re
import time
import uuid
from datetime import datetime, timezone
from typing import Any

from jetsync.cli import values
from jetsync.cli.failure import UsageError
from jetsync.cli.flags import HEADER
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]

_PLACE = re.compile(r"\{\{\s*\.?(Count|ID|TimeStamp)\s*\}\}")


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    told = invocation.arguments
    scheduled = told.at is not None or told.every is not None
    stored = told.js or told.id is not None or told.ttl is not None or scheduled
    _check(told, scheduled)
    if told.file is not None:
        from jetsync.cli.copy import publish_file

        publish_file(invocation, told.file, told.subject, told.subject_column, stored=stored)
        return
    if stored and told.reply:
        raise UsageError("--reply has no meaning with --js: the server's confirmation goes there.")
    nc = invocation.connect()
    js = invocation.jetstream() if stored else None
    given = values.headers(told.header)
    data = values.read_body(told.body)
    for number in range(1, told.count + 1):
        if number > 1 and told.sleep:
            time.sleep(told.sleep)
        subject, payload = told.subject, data
        if told.body != "-":
            subject = _filled(subject, number)
            payload = _filled(data.decode("utf-8", "surrogateescape"), number).encode(
                "utf-8", "surrogateescape"
            )
        if js is None:
            nc.publish(subject, payload, reply=told.reply, headers=given)
            continue
        more: dict[str, Any] = {} if told.id is None else {"msg_id": _filled(told.id, number)}
        target = subject
        if scheduled:
            subject = told.schedule_subject or f"{target}.schedules.{uuid.uuid4().hex}"
            more.update(schedule=told.at or told.every, schedule_target=target)
        ack = js.publish(subject, payload, headers=given, ttl=told.ttl, **more)
        said = " (a duplicate)" if ack.duplicate else ""
        invocation.out.item(
            {"subject": subject, "stream": ack.stream, "seq": ack.seq, "duplicate": ack.duplicate},
            lambda ack=ack, said=said: f"stored in {ack.stream} as {ack.seq:,}{said}",  # type: ignore[misc]
        )
    if js is None:
        nc.flush()
        what = values.plural(told.count, "message")
        invocation.out.show(
            {"subject": told.subject, "published": told.count, "bytes": len(data) * told.count},
            f"published {what} to {told.subject!r}",
        )


def _check(told: Any, scheduled: bool) -> None:
    if told.subject_column is not None and told.file is None:
        raise UsageError("--subject-column goes with --file.")
    if told.file is not None and (
        told.body is not None
        or scheduled
        or told.count > 1
        or any((told.id, told.header, told.reply, told.sleep, told.ttl is not None))
        or _PLACE.search(told.subject)
    ):
        raise UsageError(
            "--file goes with --subject-column and --js only: not with BODY, --header, --reply, "
            "--count, --sleep, --id, --ttl, --at and --every, nor with {{Count}} and the like."
        )
    if told.at is not None and told.every is not None:
        raise UsageError("give either --at or --every.")
    if told.schedule_subject is not None and not scheduled:
        raise UsageError("--schedule-subject goes with --at and --every.")


def _filled(text: str, number: int) -> str:
    """Replace {{Count}}, {{ID}} and {{TimeStamp}}, as the ``nats`` command does."""

    def value(found: re.Match[str]) -> str:
        if found[1] == "Count":
            return str(number)
        if found[1] == "ID":
            return uuid.uuid4().hex
        return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")

    return _PLACE.sub(value, text)


COMMANDS = (
    Command(
        "pub",
        "publish messages",
        run,
        (
            argument("SUBJECT", help="subject to publish to"),
            argument("BODY", nargs="?", help='data of the message; "-" reads standard input'),
            argument("--js", "-J", action="store_true", help="wait until a stream has stored it"),
            HEADER,
            argument("--reply", metavar="SUBJECT", help="subject for replies"),
            argument("--count", type=values.count, default=1, help="how many (default: 1)"),
            argument(
                "--sleep", type=values.duration, metavar="TIME", help="pause between messages"
            ),
            argument(
                "--id", metavar="TEXT", help="message id; a stream stores it once (with --js)"
            ),
            argument(
                "--ttl", type=values.duration, metavar="TIME", help="life of the message (--js)"
            ),
            argument(
                "--at",
                type=values.coming,
                metavar="TIME",
                help='let the server publish it then: a time, or "10m" from now (2.12)',
            ),
            argument(
                "--every",
                type=values.every,
                metavar="TIME",
                help='let the server publish it again and again: "1h", or a cron pattern (2.12)',
            ),
            argument(
                "--schedule-subject",
                metavar="SUBJECT",
                help="where that schedule is stored (default: SUBJECT.schedules.ID)",
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
        "jetsync pub orders.remind 'order 7' --at 30m",
        description="Publish messages. {{Count}}, {{ID}} and {{TimeStamp}} in subject and body are "
        "replaced in each.",
    ),
)
