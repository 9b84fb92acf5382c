"""Orphans: server consumers that an ordered reader no longer needs, until they are deleted."""

from __future__ import annotations

import contextlib

from jetsync.errors import Error
from jetsync.jetstream.api import API

__all__ = ["Orphans"]

_NO_ROOM = 1.0
"""Seconds after which deletions are sent again that found the outbound buffer full."""
_ONCE_MORE = 5.0
"""Seconds after which a consumer is deleted again whose creation was not answered: the server may
have been slower to make it than to look for it."""


class Orphans:
    """Deletes server consumers without waiting for the answers. Those that cannot be deleted end by
    themselves after their inactive threshold. Any thread."""

    def __init__(self, api: API, stream: str) -> None:
        self._api = api
        self._port = api.port
        self._stream = stream
        self._names: dict[str, bool] = {}  # name -> whether its creation was answered
        self._sent_on: dict[str, int] = {}  # name -> the link on which its deletion was sent

    def add(self, name: str, *, is_certain: bool = True) -> None:
        """Note a consumer; ``is_certain``: its creation was answered."""
        self._names[name] = is_certain

    def delete(self) -> None:
        """Send the deletions, each once on a link. A deletion lost with its link is sent again by
        the next call."""
        epoch = self._port.epoch
        wanted = [one for one in list(self._names) if self._sent_on.get(one) != epoch]
        names = self._send(wanted)
        if len(names) < len(wanted) and self._port.linked:
            self._port.later(_NO_ROOM, self.delete)
        if not names:
            return
        self._sent_on.update(dict.fromkeys(names, epoch))
        uncertain = [name for name in names if not self._names.get(name)]

        def on_pong() -> None:
            if self._port.epoch == epoch and self._port.linked:
                # The server has received them.
                for name in names:
                    self._names.pop(name, None)
                    self._sent_on.pop(name, None)
                if uncertain:
                    self._port.later(_ONCE_MORE, lambda: self._send(uncertain))

        with contextlib.suppress(Error):
            self._port.after_pong(on_pong)

    def _send(self, names: list[str]) -> list[str]:
        """Send deletions; returns those that could be sent. Does not wait for room."""
        sent = []
        for name in names:
            operation = f"CONSUMER.DELETE.{self._stream}.{name}"
            with contextlib.suppress(Error):
                self._port.send(self._api.subject(operation), seconds=0.0)
                sent.append(name)
        return sent
