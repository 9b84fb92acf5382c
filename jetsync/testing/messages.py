"""make_message: a message of a consumer without any server, so that handlers are unit-tested."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from jetsync._core.encoding import encode_headers
from jetsync._core.message import ACKED, DONE
from jetsync._deadline import Seconds, to_seconds
from jetsync.errors import ConfigError
from jetsync.headers import HeaderInput
from jetsync.jetstream import JetStreamMsg
from jetsync.jetstream.acks.keep_alive import KeepAlive
from jetsync.jetstream.message import TERMINATED

__all__ = ["MadeMessage", "make_message"]

_SETTLED = {"ack": DONE | ACKED, "nak": DONE, "term": TERMINATED}
_FIELDS = ("consumer", "consumer_seq", "timestamp_ns", "num_pending", "domain", "account_hash")


class MadeMessage(JetStreamMsg):
    """The message that ``make_message`` returns: it records how a handler settles it."""

    outcome: str | None
    outcome_delay: float | None
    outcome_reason: str | None

    def _say(self, outcome: str, delay: Seconds | None = None, reason: str | None = None) -> None:
        if not self.is_acked:
            self.outcome = outcome
            self.outcome_delay = None if delay is None else to_seconds(delay, "delay")
            self.outcome_reason = reason
            if self.is_acked:
                self._flags = _SETTLED[outcome]

    def ack(self) -> None:
        """Note it."""
        self._say("ack")

    def ack_sync(self, timeout: Seconds | None = None) -> None:
        """Note it as an ``ack``."""
        self._say("ack")

    def nak(self, delay: Seconds | None = None) -> None:
        """Note it, with the delay."""
        self._say("nak", delay)

    def term(self, reason: str | None = None) -> None:
        """Note it."""
        if reason is not None and ("\r" in reason or "\n" in reason):
            raise ConfigError("the reason of term() must be one line")
        self._say("term", None, reason)

    def in_progress(self) -> None:
        """Note it, unless the message is settled."""
        self._say("in_progress")

    def keep_alive(self, interval: Seconds | None = None) -> KeepAlive:
        """Return a context manager that notes ``in_progress``, unless the message is settled."""
        return _Kept(self, 10.0 if interval is None else to_seconds(interval, "interval"))

    @property
    def is_acked(self) -> bool:
        """Whether a terminal acknowledgement (ack, nak, term) was sent for the delivery."""
        return self.outcome in ("ack", "nak", "term")


class _Kept(KeepAlive):
    """The ``keep_alive`` of a made message: nothing is sent."""

    def __init__(self, msg: MadeMessage, interval: float) -> None:
        self._msg = msg
        self.interval = interval

    def __enter__(self) -> _Kept:
        self._msg.in_progress()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Note nothing more."""


def make_message(
    data: bytes = b"",
    *,
    subject: str = "test",
    headers: HeaderInput | None = None,
    num_delivered: int = 1,
    stream: str = "TEST",
    seq: int = 1,
    **metadata: Any,
) -> MadeMessage:
    """Return a message as a consumer delivers it. Needs no server; does not block.

    ``num_delivered`` and ``metadata`` are fields of ``MsgMetadata``. Its ``outcome`` is None,
    ``ack``, ``nak``, ``term`` or ``in_progress``, the last of them; a ``nak`` has
    ``outcome_delay``. Raises ConfigError for unknown fields.
    """
    unknown = set(metadata) - set(_FIELDS)
    if unknown:
        raise ConfigError(f"make_message has no {', '.join(sorted(unknown))}")
    given = {
        "consumer": "test",
        "consumer_seq": seq,
        "timestamp_ns": time.time_ns(),
        "num_pending": 0,
        "domain": None,
        "account_hash": None,
        **metadata,
    }
    domain, account = given["domain"] or "_", given["account_hash"] or "none"
    reply = (
        f"$JS.ACK.{domain}.{account}.{stream}.{given['consumer']}.{num_delivered}.{seq}."
        f"{given['consumer_seq']}.{given['timestamp_ns']}.{given['num_pending']}.0"
    )
    if domain == "_" and account == "none":
        reply = (
            f"$JS.ACK.{stream}.{given['consumer']}.{num_delivered}.{seq}."
            f"{given['consumer_seq']}.{given['timestamp_ns']}.{given['num_pending']}"
        )
    raw = encode_headers(headers) if headers else b""
    msg = MadeMessage._make(subject, data, reply, raw)
    msg.outcome = msg.outcome_delay = msg.outcome_reason = None
    return msg
