"""When failed work is tried again: Backoff, and the exceptions by which a handler decides."""

from __future__ import annotations

import dataclasses
import random
from typing import Final

from jetsync._deadline import Seconds, to_seconds
from jetsync.errors import ConfigError
from jetsync.jetstream.message import to_delay

__all__ = ["NEVER", "Backoff", "Never", "Reject", "Retry"]


@dataclasses.dataclass(frozen=True)
class Backoff:
    """How long to wait before the next try: ``first`` seconds, then ``factor`` times as long each
    time, up to ``limit``; each changed at random by up to the share ``jitter``.

    ``tries`` is how many deliveries of a message there are in all; None: without end.
    """

    first: Seconds = 1.0
    _: dataclasses.KW_ONLY
    factor: float = 2.0
    limit: Seconds = 300.0
    jitter: float = 0.1
    tries: int | None = 5

    def __post_init__(self) -> None:
        first, limit = to_seconds(self.first, "first"), to_seconds(self.limit, "limit")
        if limit < first:
            raise ConfigError("limit of a Backoff must not be below first")
        if isinstance(self.factor, bool) or not self.factor >= 1:
            raise ConfigError("factor of a Backoff must be 1 or more")
        if not 0 <= self.jitter <= 1:
            raise ConfigError("jitter of a Backoff must be from 0 to 1")
        if self.tries is not None and (
            isinstance(self.tries, bool) or not isinstance(self.tries, int) or self.tries < 1
        ):
            raise ConfigError("tries of a Backoff must be 1 or more, or None")

    def delay(self, failures: int) -> float | None:
        """Return the seconds until the next try after so many failures (1 or more); None when there
        is none."""
        if self.tries is not None and failures >= self.tries:
            return None
        first, limit = to_seconds(self.first), to_seconds(self.limit)
        seconds = first
        for _ in range(failures - 1):
            if seconds >= limit or self.factor == 1:
                break
            seconds *= self.factor
        seconds = min(seconds, limit)
        spread = random.uniform(-self.jitter, self.jitter)  # noqa: S311 - not a secret
        return min(limit, seconds * (1 + spread))


class Never:
    """The kind of :data:`NEVER`."""

    def __repr__(self) -> str:
        return "NEVER"

    def __reduce__(self) -> str:
        return "NEVER"


NEVER: Final = Never()
"""In a mapping of exceptions to backoffs: such an exception is final at once."""


class Retry(Exception):
    """Raised by a handler: deliver the message again, after ``delay`` seconds when given, else
    after those of the backoff. It counts as a failed try. Raises ConfigError for a delay that is
    none."""

    def __init__(self, delay: Seconds | None = None, reason: str | None = None) -> None:
        super().__init__(delay, reason)
        self.delay: float | None = None if delay is None else to_delay(delay)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "the handler asked for another try"


class Reject(Exception):
    """Raised by a handler: the message will never succeed, it becomes a dead letter now."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "the handler rejected it"
