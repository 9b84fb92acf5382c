"""Trace: logs the protocol of a link; the switch is read when the link is made.

The logger ``jetsync.wire`` is the switch: where its own level is DEBUG, the bytes of the link pass
a filter (as with TLS) that logs them. Otherwise there is no filter and no cost; the level of
``jetsync`` does not count. The lines that sign in are exchanged before and never logged; subjects,
headers and data are.
"""

from __future__ import annotations

import logging

from jetsync._counted import counted
from jetsync._log import Log
from jetsync.client.wire import ByteFilter

__all__ = ["traced"]

logger: Log = Log("jetsync.wire")

_MOST = 1024


def traced(inner: ByteFilter | None, name: str) -> ByteFilter | None:
    """Return the filter of a link, with one around it that logs if that is wanted now."""
    return _Trace(inner, name) if 0 < logger.level <= logging.DEBUG else inner


class _Trace:
    """Logs what passes in plain. See ``ByteFilter``."""

    def __init__(self, inner: ByteFilter | None, name: str) -> None:
        self._inner = inner
        self._name = name

    def decode(self, data: bytes | memoryview) -> list[bytes]:
        """See ``ByteFilter``."""
        pieces = [bytes(data)] if self._inner is None else self._inner.decode(data)
        for piece in pieces:
            self._log("<<-", piece)
        return pieces

    def encode(self, data: bytes | memoryview) -> bytes:
        """See ``ByteFilter``."""
        if len(data):
            self._log("->>", bytes(data))
        return bytes(data) if self._inner is None else self._inner.encode(data)

    @property
    def owes(self) -> bool:
        """See ``ByteFilter``."""
        return self._inner is not None and self._inner.owes

    @property
    def more(self) -> bool:
        """See ``ByteFilter``."""
        return self._inner is not None and self._inner.more

    @property
    def ended(self) -> bool:
        """See ``ByteFilter``."""
        return self._inner is not None and self._inner.ended

    def _log(self, way: str, data: bytes) -> None:
        more = f" ... {counted(len(data), 'byte', form=',')} in all" if len(data) > _MOST else ""
        extra = {"nats_event": "wire", "nats_connection": self._name}
        logger.debug("%s %s %r%s", self._name, way, data[:_MOST], more, extra=extra)
