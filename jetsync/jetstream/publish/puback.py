"""PubAck, and what publishing calls return."""

from __future__ import annotations

import dataclasses
from typing import Any

from jetsync._core.futures import AckForm
from jetsync._core.message import parse_puback
from jetsync._counted import counted
from jetsync.errors import NotStoredError, ProtocolError, PublishError, PublishUnknownError
from jetsync.jetstream.api import decode, reading

__all__ = ["ACKS", "PubAck", "PublishReport", "decode_puback"]


@dataclasses.dataclass(frozen=True)
class PubAck:
    """The stream's confirmation: the message is stored under ``seq``.

    ``duplicate`` says that a message with this id was there already (``seq`` is that one's): also
    when it was an earlier attempt of the same call whose confirmation was lost. ``value`` is the
    new total of a counter; ``batch`` and ``count`` are a batch's id and number of messages.
    """

    stream: str
    seq: int
    duplicate: bool = False
    domain: str | None = None
    """The JetStream domain that confirmed, if there is one."""
    value: str | None = None
    batch: str | None = None
    count: int | None = None


def decode_puback(data: bytes) -> PubAck:
    """Read an acknowledgement. Raises the APIError it carries, ProtocolError for nonsense.

    Nonsense beside a good stream and sequence is left out: the message is stored all the same."""
    usual = parse_puback(data)
    if usual is not None and data.count(b'"') <= 6 + 2 * usual[2]:
        return ACKS.make(*usual)  # no further names: no domain, value or batch
    try:
        with reading("a confirmation"):
            return _read(data)
    except ProtocolError:
        if usual is None:
            raise
        return ACKS.make(*usual)


def _read(data: bytes) -> PubAck:
    answer = decode(data)
    stream, seq = answer.get("stream"), answer.get("seq")
    if type(seq) is not int or not 0 < seq < 2**64 or not (stream and type(stream) is str):
        raise ProtocolError(f"a publish was answered with something else: {data[:100]!r}")
    return PubAck(
        stream=stream,
        seq=seq,
        duplicate=bool(answer.get("duplicate", False)),
        domain=_text(answer, "domain"),
        value=_text(answer, "val"),
        batch=_text(answer, "batch"),
        count=None if answer.get("count") is None else int(answer["count"]),
    )


def _text(answer: dict[str, Any], name: str) -> str | None:
    value = answer.get(name)
    return None if value is None else str(value)


ACKS = AckForm(PubAck, decode_puback)
"""The class by which the compiled core makes confirmations."""


@dataclasses.dataclass(frozen=True, repr=False)
class PublishReport:
    """The result of a bulk publish.

    ``stored`` messages are in the stream, ``duplicates`` of them were there before. ``failed`` has
    ``(index, error)`` for every other message, in order: NotStoredError, PublishUnknownError, or
    ConfigError / MaxPayloadError for one that could not be sent. Sequences are 0 when nothing was
    stored. ``complete`` is False when the time was over, or too many had failed, before every
    message was taken from the source: what comes after ``stored`` and ``failed`` was never sent.
    """

    stored: int
    duplicates: int
    failed: list[tuple[int, Exception]]
    first_seq: int
    """The lowest sequence that was stored; 0: none."""
    last_seq: int
    """The highest sequence that was stored; 0: none."""
    complete: bool = True

    def __repr__(self) -> str:
        shown = ", ".join(f"({index}, {error!r})" for index, error in self.failed[:3])
        more = f", ... {len(self.failed)} in all" if len(self.failed) > 3 else ""
        return (
            f"PublishReport(stored={self.stored}, duplicates={self.duplicates}, "
            f"failed=[{shown}{more}], first_seq={self.first_seq}, last_seq={self.last_seq}, "
            f"complete={self.complete})"
        )

    def raise_for_failed(self) -> PublishReport:
        """Raise when a message failed: PublishUnknownError when any outcome is unknown, else
        NotStoredError; the first cause is chained. Returns the report otherwise."""
        if not self.failed and self.complete:
            return self
        if not self.failed:
            raise NotStoredError(
                f"the time was over after {counted(self.stored, 'message')}; the rest was never "
                "sent"
            )
        total = self.stored + len(self.failed)
        unknown = [item for item in self.failed if isinstance(item[1], PublishUnknownError)]
        index, cause = (unknown or self.failed)[0]
        kind: type[PublishError] = PublishUnknownError if unknown else NotStoredError
        raise kind(
            f"{len(self.failed)} of {counted(total, 'message')} not confirmed; first: message "
            f"{index}: {cause}"
        ) from cause

    def __add__(self, other: Any) -> PublishReport:
        """Join the reports of two consecutive calls; indices go on after the first one's."""
        if not isinstance(other, PublishReport):
            return NotImplemented
        offset = self.stored + len(self.failed)
        firsts = [seq for seq in (self.first_seq, other.first_seq) if seq]
        return PublishReport(
            self.stored + other.stored,
            self.duplicates + other.duplicates,
            self.failed + [(index + offset, error) for index, error in other.failed],
            min(firsts, default=0),
            max(self.last_seq, other.last_seq),
            self.complete and other.complete,
        )
