"""KeyValueBackend: Celery's results in a key-value bucket."""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from celery import states
from celery.backends.base import KeyValueStoreBackend
from celery.exceptions import BackendStoreError
from celery.exceptions import TimeoutError as CeleryTimeoutError

from jetsync import (
    Connection,
    Entry,
    KeyExistsError,
    KeyNotFoundError,
    KeyValue,
    KeyValueConfig,
    KeyValueOperation,
    KeyWrongRevisionError,
    MaxPayloadError,
    MessageTooLargeError,
    NoRespondersError,
    TimeoutError,
    shared_connection,
)
from jetsync.contrib.gevent import call, is_patched
from jetsync.contrib.names import to_token
from jetsync.contrib.options import Address, read_options

__all__ = ["KeyValueBackend"]

_BUCKET = "celery-results"
_MOST_WATCHED = 200
"""Results that one watch follows at most; more of them are asked for again and again."""
_INTERVAL = 2.0
"""Seconds after which a wait calls ``on_interval`` even if nothing came."""


class KeyValueBackend(KeyValueStoreBackend):  # type: ignore[misc, unused-ignore]
    """``result_backend = "jetsync+nats://host:4222/bucket"``: a result is a key of the bucket.

    ``result_expires`` is the age of the bucket's entries, set when the bucket is made. Options:
    ``result_backend_transport_options``. Every call blocks; thread-safe, and safe after a fork.
    """

    supports_autoexpire = True
    supports_native_join = True
    implements_incr = True
    key_t = staticmethod(lambda key: key if isinstance(key, str) else key.decode())

    def __init__(
        self,
        app: Any = None,
        url: str | None = None,
        expires: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(app=app, url=url, **kwargs)
        self.expires = self.prepare_expires(expires, type=float)
        address = Address.of_url(url or "")
        given = dict(self.app.conf.get("result_backend_transport_options") or {})
        fields, store = read_options(address, given, default=_BUCKET)
        fields.setdefault("name", "celery-results")
        self.fields = fields
        """The options of the connection: keywords of jetsync.shared_connection."""
        self._store = store
        self._known: tuple[Connection, KeyValue] | None = None
        self._pid = 0

    def __reduce__(self, args: Any = (), kwargs: Any = None) -> Any:
        """How Celery sends a backend to another process."""
        more = {"url": self.url, "expires": self.expires}
        return super().__reduce__(args, {**more, **(kwargs or {})})

    def as_uri(self, include_password: bool = False) -> str:
        """The URL, its password hidden."""
        uri: str = super().as_uri(include_password)
        return uri

    @property
    def bucket(self) -> KeyValue:
        """The bucket of this process; made when there is none. Blocks then."""
        known = self._known
        if known is None or known[0].is_closed or self._pid != os.getpid():
            nc = shared_connection(**self.fields)
            self._pid = os.getpid()
            from jetsync.contrib.kombu.broker import open_bucket

            js = nc.jetstream()
            config = KeyValueConfig(
                bucket=self._store.name,
                ttl=self.expires or 0.0,
                replicas=self._store.num_replicas,
                storage=self._store.storage,
            )
            made = open_bucket(js, config) if self._store.create else js.key_value(config.bucket)
            known = self._known = nc, made
        return known[1]

    # -- what Celery asks of a store ---------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        """The value of a key, None when it has none."""
        return call(self._get, to_token(key))

    def _get(self, key: str) -> bytes | None:
        try:
            # A replica that is behind would answer with less than the watch has said.
            return bytes(self.bucket.get(key, direct=False).value)
        except KeyNotFoundError:
            return None

    def mget(self, keys: Iterable[str]) -> list[bytes | None]:
        """The values of several keys, in their order."""
        return call(self._mget, [to_token(key) for key in keys])

    def _mget(self, keys: list[str]) -> list[bytes | None]:
        if len(keys) == 1:
            return [self._get(keys[0])]
        found = self.bucket.get_many(keys)
        return [bytes(found[key].value) if key in found else None for key in keys]

    def set(self, key: str, value: Any) -> None:
        """Give a key a value. Raises BackendStoreError for one that the server does not take."""
        data = value if isinstance(value, bytes) else str(value).encode()
        try:
            call(lambda: self.bucket.put(to_token(key), data))
        except (MaxPayloadError, MessageTooLargeError) as error:
            raise BackendStoreError(
                f"a result of {len(data)} bytes is more than the server takes: {error}"
            ) from error

    def delete(self, key: str) -> None:
        """Take a key's value away."""
        call(lambda: self.bucket.purge(to_token(key)))

    def incr(self, key: str) -> int:
        """Count one up and return the count; no two calls return the same."""
        return call(self._incr, to_token(key))

    def _incr(self, key: str) -> int:
        while True:
            bucket = self.bucket
            try:
                entry = bucket.get(key, direct=False)
            except KeyNotFoundError:
                try:
                    bucket.create(key, b"1")
                except KeyExistsError:
                    continue
                return 1
            count = int(entry.value) + 1
            try:
                bucket.update(key, str(count).encode(), entry.revision)
            except KeyWrongRevisionError:
                continue
            return count

    def expire(self, key: str, value: Any) -> None:
        """Nothing: all that is in the bucket ages out after ``result_expires``."""

    def exception_safe_to_retry(self, exc: BaseException) -> bool:
        """Whether a call may be repeated, with ``result_backend_always_retry``."""
        return isinstance(exc, TimeoutError | ConnectionError | NoRespondersError)

    # -- waiting -----------------------------------------------------------------------------------

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_interval: Callable[[], Any] | None = None,
    ) -> Any:
        """Wait for a result, woken by the bucket. Under gevent it asks again and again."""
        if is_patched():
            return super().wait_for(
                task_id, timeout=timeout, interval=interval, no_ack=no_ack, on_interval=on_interval
            )
        self._ensure_not_eager()
        meta = self.get_task_meta(task_id)
        if meta["status"] in states.READY_STATES:
            return meta
        for _ in self._changes([task_id], timeout, on_interval):
            meta = self.get_task_meta(task_id)
            if meta["status"] in states.READY_STATES:
                return meta
        raise CeleryTimeoutError("The operation timed out.")

    def get_many(
        self,
        task_ids: Iterable[str],
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_message: Callable[[Any], Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
        max_iterations: int | None = None,
        READY_STATES: Any = states.READY_STATES,
    ) -> Iterator[Any]:
        """Yield the results of several tasks as they come, woken by the bucket."""
        wanted = set(task_ids)
        options: dict[str, Any] = {
            "no_ack": no_ack, "on_message": on_message, "READY_STATES": READY_STATES,
        }  # fmt: skip
        if is_patched() or max_iterations or len(wanted) > _MOST_WATCHED:
            yield from super().get_many(
                wanted, timeout=timeout, interval=interval, on_interval=on_interval,
                max_iterations=max_iterations, **options,
            )  # fmt: skip
            return
        for some in self._portions(wanted, timeout, on_interval):
            # It takes what it finds out of the set that it is given.
            asked = some & wanted
            found = super().get_many(asked, max_iterations=1, interval=0, **options)
            for task_id, meta in found:
                wanted.discard(task_id)
                yield task_id, meta
            if not wanted:
                return
        raise CeleryTimeoutError(f"Operation timed out ({timeout})")

    def _portions(
        self,
        task_ids: builtins.set[str],
        timeout: float | None,
        on_interval: Callable[[], Any] | None,
    ) -> Iterator[builtins.set[str]]:
        """All tasks at the start, then those whose results may have come."""
        yield builtins.set(task_ids)
        yield from self._changes(sorted(task_ids), timeout, on_interval)

    def _changes(
        self, task_ids: list[str], timeout: float | None, on_interval: Callable[[], Any] | None
    ) -> Iterator[builtins.set[str]]:
        """Yield each task whose key has a new value, and now and then all of them, as a watch may
        begin late; end when the time is over."""
        tasks = {to_token(self.get_key_for_task(task_id)): task_id for task_id in task_ids}
        ends_at = None if timeout is None else time.monotonic() + timeout
        with self.bucket.watch(list(tasks)) as watcher:
            while True:
                left = _INTERVAL if ends_at is None else min(_INTERVAL, ends_at - time.monotonic())
                try:
                    entry: Entry = watcher.next(max(0.0, left))
                except TimeoutError:
                    yield builtins.set(task_ids)
                    if ends_at is not None and time.monotonic() >= ends_at:
                        return
                else:
                    if entry.operation is KeyValueOperation.PUT:
                        yield {tasks[entry.key]}
                if on_interval is not None:
                    on_interval()
