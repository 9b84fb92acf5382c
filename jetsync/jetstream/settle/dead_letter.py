"""Dead letters: a message that will not succeed is stored elsewhere before it is terminated."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from string import Formatter
from typing import TYPE_CHECKING

from jetsync._printable import printable
from jetsync.errors import ConfigError
from jetsync.jetstream.context import api_of
from jetsync.jetstream.publish.orders import is_order
from jetsync.protocol.subjects import check_publish_subject

if TYPE_CHECKING:
    from jetsync.jetstream.context import JetStream
    from jetsync.jetstream.message import JetStreamMsg
    from jetsync.jetstream.streams.direct import StoredMsg

__all__ = ["DeadLetters", "copied_headers", "error_text"]

_FIELDS = {"stream", "consumer", "subject"}
_MOST_TEXT = 1024
# Servers store messages with subjects and header lines that this library refuses to publish.
_NOT_IN_NAME = re.compile(r"[^!-9;-~]")
_NOT_IN_LINE = re.compile(r"[\0\r\n]")
_NOT_IN_SUBJECT = re.compile(r"[\0-\x20\x7f]|(?<![^.])[*>](?![^.])")


class DeadLetters:
    """Stores copies of messages below a subject. Thread-safe.

    ``subject`` may contain ``{stream}``, ``{consumer}`` and ``{subject}``. Raises ConfigError.
    """

    def __init__(self, js: JetStream, subject: str) -> None:
        self._js = js
        self._template = check_template(subject)

    def store(self, msg: JetStreamMsg, reason: str, error: BaseException | None, tries: int) -> str:
        """Store a copy; return its subject. Blocks; raises what ``publish`` raises.

        Its message id names the original, so a copy that is stored twice counts once.
        """
        about = msg.metadata
        subject = self._template.format(
            stream=about.stream,
            consumer=about.consumer,
            subject=_NOT_IN_SUBJECT.sub("_", msg.subject),
        )
        headers = copied_headers(msg)
        headers["Dead-Letter-Reason"] = [reason]
        if error is not None:
            headers["Dead-Letter-Error"] = [error_text(error)]
        headers["Dead-Letter-Stream"] = [about.stream]
        headers["Dead-Letter-Consumer"] = [about.consumer]
        headers["Dead-Letter-Subject"] = [_line(msg.subject)]
        headers["Dead-Letter-Sequence"] = [str(about.stream_seq)]
        headers["Dead-Letter-Deliveries"] = [str(tries)]
        now = datetime.now(timezone.utc)
        headers["Dead-Letter-Time"] = [now.isoformat().replace("+00:00", "Z")]
        msg_id = f"dl:{about.stream}:{about.consumer}:{about.stream_seq}:{about.timestamp_ns}"
        place = {"stream": about.stream, "consumer": about.consumer}
        with api_of(self._js).port.operation(
            "settle", "dead_letter", subject=msg.subject, count=1, **place
        ):
            self._js.publish(subject, msg.data, headers=headers, msg_id=msg_id)
        return subject


def check_template(subject: str) -> str:
    """Return a subject for dead letters after checking it. Raises ConfigError."""
    if not isinstance(subject, str):
        raise ConfigError(f"dead_letter must be a subject, not {type(subject).__name__}")
    try:
        fields = {name for _, name, spec, _ in Formatter().parse(subject) if name is not None}
        if fields - _FIELDS:
            raise ConfigError(
                f"dead_letter may contain {{stream}}, {{consumer}} and {{subject}}: {subject!r}"
            )
        check_publish_subject(subject.format(stream="S", consumer="C", subject="s"))
    except ValueError as error:
        raise ConfigError(f"dead_letter {subject!r} is no subject: {error}") from None
    return subject


def copied_headers(msg: JetStreamMsg | StoredMsg) -> dict[str, list[str]]:
    """Return the header lines of a message without instructions for a stream and without those of
    an earlier dead letter. What a name cannot have becomes ``_``, what a value cannot have a
    space."""
    found: dict[str, list[str]] = {}
    headers = msg.headers
    for name in headers or ():
        if not is_order(name) and not name.lower().startswith("dead-letter-"):
            lines = found.setdefault(_NOT_IN_NAME.sub("_", name), [])
            lines += [_line(value) for value in headers.get_all(name)]
    return found


def error_text(error: BaseException) -> str:
    """Return "Class: text" of an exception as one line of at most 1 KiB."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a broken __str__ of the user's
        text = type(error).__name__
    encoded = _line(printable(text)).encode("utf-8", "replace")[:_MOST_TEXT]
    return encoded.decode("utf-8", "ignore")


def _line(value: str) -> str:
    return _NOT_IN_LINE.sub(" ", value).strip()
