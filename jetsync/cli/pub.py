"""``jetsync pub``: publish messages."""

from __future__ import annotations

import re
import time
import uuid
from datetime import datetime, timezone
from typing import Any

from jetsync.cli import values
from jetsync.cli.failure import UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]

_PLACE = re.compile(r"\{\{\s*\.?(Count|ID|TimeStamp)\s*\}\}")


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    told = invocation.arguments
    stored = told.js or told.id is not None or told.ttl is not None
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
            argument(
                "-H",
                "--header",
                metavar="NAME:VALUE",
                action="append",
                default=[],
                help="add a header; may be repeated",
            ),
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
        ),
        example="jetsync pub orders.new 'order {{Count}}' --js --count 3",
        description="Publish messages. {{Count}}, {{ID}} and {{TimeStamp}} in subject and body are "
        "replaced in each.",
    ),
)
