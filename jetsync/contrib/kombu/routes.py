"""Routes: which queues are bound to which exchange, as a bucket says that every process watches.

A key is ``<exchange>.<queue>.<routing key>``, each part as one token, ``=`` for an empty one. The
value of a binding has the type of its exchange. AMQP binds every queue to the exchange without a
name; the value of that binding is the record of the queue.
"""

from __future__ import annotations

import json
import threading
import time

from jetsync import (
    ConnectionClosedError,
    Entry,
    JetStream,
    KeyValue,
    KeyValueOperation,
    TimeoutError,
    Watcher,
)
from jetsync.contrib.kombu.queues import QueueRecord
from jetsync.contrib.names import from_token, to_token

__all__ = ["Routes", "key_of"]

_EMPTY = "="
_CATCH_UP = 0.5
"""Seconds that a route which is not known is waited for at most, once the server was asked."""
_FIRST = 5.0
"""Seconds that reading all bindings may take."""
_AGAIN = 1.0
"""Seconds between two such questions for messages that nothing is bound for."""


def _token(name: str) -> str:
    return to_token(name) if name else _EMPTY


def _name(token: str) -> str:
    return "" if token == _EMPTY else from_token(token)


def key_of(exchange: str, queue: str, routing_key: str) -> str:
    """The key of a binding; that of a queue itself has no exchange and its name as routing key."""
    return ".".join((_token(exchange), _token(queue), _token(routing_key)))


class Routes:
    """The bindings and queues of a virtual host, followed by a watch. Thread-safe.

    Reading takes what the watch has brought by then and does not block, but for the first time.
    """

    def __init__(self, js: JetStream, bucket: KeyValue, *, marker_ttl: float | None) -> None:
        self._js = js
        self._marker_ttl = marker_ttl
        self._bucket = bucket
        self._lock = threading.RLock()
        self._watcher: Watcher | None = None
        self._seen = 0  # revision to which the watch has come
        self._revisions: dict[str, int] = {}
        self._asked_at = 0.0
        self._types: dict[str, str] = {}
        self._bindings: dict[str, set[tuple[str, str]]] = {}
        self._queues: dict[str, QueueRecord] = {}
        self.version: int = 0
        """Changes when a binding does."""

    # -- reading -----------------------------------------------------------------------------------

    def queue(self, name: str) -> QueueRecord | None:
        """The record of a queue, None when it is not declared."""
        with self._lock:
            self._follow()
            return self._queues.get(name)

    def exchange_type(self, exchange: str) -> str | None:
        """The type of an exchange that a queue is bound to."""
        with self._lock:
            self._follow()
            return self._types.get(exchange)

    def bindings(self, exchange: str) -> list[tuple[str, str]]:
        """Queue and routing key of each binding of an exchange."""
        with self._lock:
            self._follow()
            return sorted(self._bindings.get(exchange, ()))

    def of_queue(self, queue: str) -> list[tuple[str, str]]:
        """Exchange and routing key of each binding of a queue."""
        with self._lock:
            self._follow()
            return [
                (exchange, key)
                for exchange, bound in self._bindings.items()
                for name, key in bound
                if name == queue
            ]

    def exchanges(self) -> list[str]:
        """The exchanges that queues are bound to."""
        with self._lock:
            self._follow()
            return sorted(name for name, bound in self._bindings.items() if bound)

    def catch_up(self, *, seldom: bool = False) -> bool:
        """Ask the server how far the bindings have come and wait until they are known here.

        Blocks for a round trip and the way of the last change. With ``seldom`` it asks once a
        second at most. Returns whether it asked.
        """
        with self._lock:
            now = time.monotonic()
            if seldom and now < self._asked_at + _AGAIN:
                return False
            self._asked_at = now
            last = self._js.stream(f"KV_{self._bucket.bucket}").info().state.last_seq
            until = now + _CATCH_UP
            while self._seen < last and (left := until - time.monotonic()) > 0:
                self._follow(left)
            return True

    # -- writing -----------------------------------------------------------------------------------

    def declare(self, name: str, record: QueueRecord, *, ttl: float | None) -> None:
        """Write the record of a queue; it ages out after ``ttl`` seconds. Blocks."""
        self._put(key_of("", name, name), record.to_json(), ttl)

    def bind(
        self, exchange: str, type: str, queue: str, routing_key: str, *, ttl: float | None
    ) -> None:
        """Bind a queue to an exchange. Blocks."""
        value = json.dumps({"type": type}).encode()
        self._put(key_of(exchange, queue, routing_key), value, ttl)

    def unbind(self, exchange: str, queue: str, routing_key: str) -> None:
        """Take a binding away. Blocks."""
        self._take_away(key_of(exchange, queue, routing_key))

    def forget(self, queue: str) -> None:
        """Take a queue and its bindings away. Blocks."""
        for exchange, key in self.of_queue(queue):
            self.unbind(exchange, queue, key)
        self._take_away(key_of("", queue, queue))

    def _put(self, key: str, value: bytes, ttl: float | None) -> None:
        with self._lock:
            if ttl is None:
                revision = self._bucket.put(key, value)
            else:
                subject = f"$KV.{self._bucket.bucket}.{key}"
                revision = self._js.publish(subject, value, ttl=ttl).seq
            self._note(key, value, revision)

    def _take_away(self, key: str) -> None:
        with self._lock:
            # The marker tells the watchers, and goes too, where the bucket lets it.
            self._note(key, None, self._bucket.purge(key, ttl=self._marker_ttl))

    # -- following ---------------------------------------------------------------------------------

    def _follow(self, timeout: float = 0.0) -> None:
        """Take what the watch has brought; wait for one entry at most."""
        watcher = self._watcher
        if watcher is None:
            watcher = self._watcher = self._bucket.watch()
            self._types.clear()
            self._bindings.clear()
            self._queues.clear()
            self._revisions.clear()
            for entry in watcher.initial(_FIRST):
                self._take(entry)
        try:
            while True:
                self._take(watcher.next(timeout))
                timeout = 0.0
        except TimeoutError:
            pass
        except ConnectionClosedError:
            self._watcher = None
            raise

    def _take(self, entry: Entry) -> None:
        is_put = entry.operation is KeyValueOperation.PUT
        self._seen = entry.revision
        self._note(entry.key, entry.value if is_put else None, entry.revision)
        if not is_put and self._revisions.get(entry.key) == entry.revision:
            del self._revisions[entry.key]  # the watch brings nothing older any more

    def _note(self, key: str, value: bytes | None, revision: int) -> None:
        """Learn what a key says now; None: nothing any more."""
        if revision <= self._revisions.get(key, 0):
            return  # what this process has written itself
        self._revisions[key] = revision
        parts = key.split(".")
        if len(parts) != 3:
            return
        exchange, queue, routing_key = map(_name, parts)
        self.version += 1
        if not exchange:
            if value is None:
                self._queues.pop(queue, None)
            else:
                self._queues[queue] = QueueRecord.from_json(value)
            return
        bound = self._bindings.setdefault(exchange, set())
        if value is None:
            bound.discard((queue, routing_key))
        else:
            bound.add((queue, routing_key))
            self._types[exchange] = json.loads(value)["type"]
