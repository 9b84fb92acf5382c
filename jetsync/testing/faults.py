"""Faults: network faults on a connection."""

from __future__ import annotations

from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from jetsync._deadline import Seconds, to_seconds
from jetsync.errors import ConfigError
from jetsync.testing.proxy import Proxy

__all__ = ["Faults"]


class Faults:
    """A TCP proxy before a server: connect to ``url``, then disturb it.

    ``target`` is a URL, or has one (a NatsServer). It passes everything on until told otherwise; a
    fault takes effect before the call returns and holds for present and later connections. A
    context manager. Thread-safe.
    """

    def __init__(self, target: Any) -> None:
        self._target = str(getattr(target, "url", target))
        self._proxy = Proxy(self._target).start()

    @property
    def url(self) -> str:
        """Where to connect; it has the sign-in of the target."""
        user, at, _ = urlsplit(self._target).netloc.rpartition("@")
        return f"nats://{user}{at}127.0.0.1:{self._proxy.port}"

    @property
    def connections(self) -> int:
        """How many connections there are at this moment."""
        return self._proxy.connections

    def cut(self) -> None:
        """Reset every connection now. New ones are taken."""
        self._proxy.cut()

    def stall(self) -> None:
        """Pass nothing on, in no direction, until :meth:`resume`. Connections stay open."""
        self._proxy.blackhole()

    def resume(self) -> None:
        """End every fault; what was held arrives."""
        self._proxy.heal()

    def delay(self, seconds: Seconds) -> None:
        """Let everything arrive later by so many ``seconds``, in both directions."""
        self._proxy.delay(to_seconds(seconds, "seconds"))

    def bandwidth(self, bytes_per_second: float) -> None:
        """Let no more than ``bytes_per_second`` through, in each direction of each connection."""
        if not bytes_per_second > 0:
            raise ConfigError("bytes_per_second must be above 0; resume() ends every fault")
        self._proxy.bandwidth(bytes_per_second)

    def half_close(self) -> None:
        """End the direction to the client of every connection; the other one stays open."""
        self._proxy.half_close()

    def drop_after(self, n_bytes: int) -> None:
        """Throw away what the server sends after ``n_bytes`` more, until :meth:`resume`."""
        self._proxy.swallow_after(n_bytes)

    def close(self) -> None:
        """Cut everything and end."""
        self._proxy.stop()

    def __enter__(self) -> Faults:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()
