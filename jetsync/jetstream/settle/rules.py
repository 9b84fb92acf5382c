"""The settling rules: how a handler's return or exception settles its message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetsync._log import Log
from jetsync.errors import ConfigError, ConnectionClosedError, Error
from jetsync.jetstream.settle.backoff import NEVER, Backoff, Never, Reject, Retry
from jetsync.jetstream.settle.dead_letter import DeadLetters, error_text

if TYPE_CHECKING:
    from jetsync.jetstream.message import JetStreamMsg

__all__ = ["RetryRule", "Settler", "Verdict"]

logger: Log = Log("jetsync.worker")

RetryRule = (
    Backoff
    | Mapping[type[BaseException], Backoff | Never]
    | Callable[["JetStreamMsg", Exception], float | None]
)


@dataclass(frozen=True)
class Verdict:
    """The decision about a message: try again after ``delay`` seconds, or, when that is None, give
    it up for ``reason`` (``rejected``, ``tries``, ``crashed``, ``decode``)."""

    delay: float | None
    reason: str = ""


class Settler:
    """Judges failures and settles messages. Thread-safe. Used by workers and by Spark tasks.

    ``retry`` is a Backoff, a mapping from exception classes to backoffs (the nearest class counts;
    others get ``Backoff()``), or a function that returns the delay, or None to give up.
    """

    def __init__(
        self,
        retry: RetryRule | None = None,
        *,
        dead_letters: DeadLetters | None = None,
        on_dead_letter_failed: Callable[[JetStreamMsg, Error], object] | None = None,
        ack_sync: bool = False,
    ) -> None:
        self._retry = check_retry(Backoff() if retry is None else retry)
        self._dead_letters = dead_letters
        self._on_failed = on_dead_letter_failed
        self._ack_sync = ack_sync
        self.refusal: str | None = None
        """Why the last dead letter could not be stored; None: it was."""

    @property
    def limit(self) -> float:
        """Seconds until a dead letter that could not be stored is tried again."""
        rule = self._retry if isinstance(self._retry, Backoff) else Backoff()
        return float(rule.limit)  # type: ignore[arg-type]

    @property
    def most_tries(self) -> int | None:
        """The highest number of tries of its backoffs; None: without end, or not known."""
        rule = self._retry
        if isinstance(rule, Backoff):
            return rule.tries
        if not isinstance(rule, Mapping):
            return None
        tries = [Backoff().tries]
        tries += [1 if isinstance(one, Never) else one.tries for one in rule.values()]
        return None if None in tries else max(one for one in tries if one is not None)

    # -- judging: no I/O -------------------------------------------------------------------------

    def judge(self, msg: JetStreamMsg, error: Exception, tries: int) -> Verdict:
        """Return what an exception of the handler means at the ``tries``-th try. Does not block."""
        if isinstance(error, Reject):
            return Verdict(None, "rejected")
        if getattr(error, "is_poison", False):
            return Verdict(None, "decode")
        delay = self._delay(msg, error, tries)
        if delay is not None and isinstance(error, Retry) and error.delay is not None:
            delay = error.delay
        return Verdict(delay, "" if delay is not None else "tries")

    def _delay(self, msg: JetStreamMsg, error: Exception, tries: int) -> float | None:
        rule = self._retry
        if isinstance(rule, Mapping):
            found = next((rule[kind] for kind in type(error).__mro__ if kind in rule), Backoff())
            return None if isinstance(found, Never) else found.delay(tries)
        if isinstance(rule, Backoff):
            return rule.delay(tries)
        try:
            delay = rule(msg, error)
            return None if delay is None else max(0.0, float(delay))
        except Exception:
            logger.exception("retry= raised; the default backoff is used")
            return Backoff().delay(tries)

    # -- settling --------------------------------------------------------------------------------

    def done(self, msg: JetStreamMsg) -> None:
        """Acknowledge a message whose handler returned, unless the handler settled it itself.

        Blocks with ``ack_sync``; raises what ``ack`` and ``ack_sync`` raise.
        """
        if msg.is_acked:
            return
        if self._ack_sync:
            msg.ack_sync()
        else:
            msg.ack()

    def try_again(self, msg: JetStreamMsg, delay: float) -> None:
        """Hand a message back for another delivery after ``delay`` seconds. Does not block."""
        msg.nak(delay if delay > 0 else None)

    def give_up(
        self, msg: JetStreamMsg, reason: str, error: BaseException | None, tries: int
    ) -> str | None:
        """End a message for good: store it as a dead letter, then terminate it.

        Returns ``dead``, or ``terminated`` when no subject for dead letters was given. When the
        dead letter could not be stored the message is not settled and None is returned. Blocks.
        """
        text = error_text(error) if error is not None else ""
        if self._dead_letters is None:
            logger.error(
                "%s of stream %s is given up (%s) %s; there is no dead_letter subject",
                msg.metadata.stream_seq,
                msg.metadata.stream,
                reason,
                text,
            )
            msg.term(reason)
            return "terminated"
        try:
            self._dead_letters.store(msg, reason, error, tries)
        except ConnectionClosedError:
            return None
        except Error as failure:
            self.refusal = error_text(failure)
            logger.error("a dead letter could not be stored: %s", failure)
            if self._on_failed is not None:
                self._on_failed(msg, failure)
            return None
        self.refusal = None
        msg.term(reason)
        return "dead"


def check_retry(rule: RetryRule) -> RetryRule:
    """Return the checked value of ``retry=``. Raises ConfigError."""
    if isinstance(rule, Mapping):
        for kind, backoff in rule.items():
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise ConfigError(f"retry maps exception classes, and {kind!r} is none")
            if backoff is not NEVER and not isinstance(backoff, Backoff):
                raise ConfigError(f"retry maps to Backoff or NEVER, not {backoff!r}")
        return dict(rule)
    if not isinstance(rule, Backoff) and not callable(rule):
        raise ConfigError("retry must be a Backoff, a mapping of exceptions, or a function")
    return rule
