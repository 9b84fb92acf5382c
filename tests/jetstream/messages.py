"""Messages with numbers: published, and read off what came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import jetsync

__all__ = ["fill", "numbers", "of_kind", "sequences"]

E = TypeVar("E", bound=BaseException)


def fill(js: jetsync.JetStream, to: jetsync.Stream | str, count: int, start: int = 0) -> None:
    """Publish ``count`` numbers to a subject, or to that of a stream which ends with "a"."""
    subject = to if isinstance(to, str) else f"{to.name}.a"
    js.publish_many((subject, b"%d" % n) for n in range(start, start + count))


def numbers(messages: Iterable[jetsync.Msg]) -> list[int]:
    return [int(msg.data) for msg in messages]


def sequences(messages: Iterable[jetsync.JetStreamMsg]) -> list[int]:
    return [msg.metadata.stream_seq for msg in messages]


def of_kind(errors: Iterable[BaseException | None], kind: type[E]) -> list[E]:
    return [error for error in list(errors) if isinstance(error, kind)]
