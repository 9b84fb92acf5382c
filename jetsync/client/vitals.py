"""Whether a link still lives, judged once every ping interval."""

from __future__ import annotations

from jetsync._core.inbound import Inbound
from jetsync._counted import counted

__all__ = ["Vitals"]

_OVERTAKEN = 3
"""How many times ``max_pings_outstanding`` intervals other messages may come before a PONG: the
server first sends what it had queued for a slow link."""


class Vitals:
    """The signs of life of one link: bytes, messages and PONGs that come in.

    Bytes alone prove only that the server can reach us. So a link is dead when nothing at all came
    for ``limit`` intervals, and also when whole messages kept coming for three times as long but
    not the PONG of any PING. The parts of one large message are a sign of life without a limit: the
    PONG waits behind it. Called by the timer thread; ``ponged`` and ``restart`` by the reader.
    """

    def __init__(self, inbound: Inbound, limit: int) -> None:
        self._inbound = inbound
        self._limit = limit
        self._reads = 0
        self._messages = 0
        self._quiet = 0
        self._overtaken = 0

    def restart(self) -> None:
        """Start anew, for a new link."""
        self._quiet = self._overtaken = 0

    def ponged(self) -> None:
        """Note a PONG: the server receives what this client sends."""
        self._quiet = self._overtaken = 0

    def check(self) -> str | None:
        """Return why the link is dead; None: it lives, and wants another PING."""
        reads, messages = self._inbound.reads, self._inbound.messages
        if reads != self._reads:
            self._quiet = 0
        if messages != self._messages:
            self._overtaken += 1
        self._reads, self._messages = reads, messages
        if self._quiet >= self._limit:
            return counted(self._limit, "ping was", "pings were") + " not answered"
        if self._overtaken > _OVERTAKEN * self._limit:
            return "messages arrive, but no answer to a ping: the server does not hear us"
        self._quiet += 1
        return None
