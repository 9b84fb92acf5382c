"""ObjectWatcher: what a bucket says about its objects, as it comes (ADR-20)."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from jetsync._api_errors import MessageNotFoundError, StreamNotFoundError
from jetsync._deadline import Deadline, Seconds
from jetsync.errors import (
    ConnectionClosedError,
    DisconnectedError,
    ObjectMetaError,
    TimeoutError,
)
from jetsync.jetstream import JetStreamMsg
from jetsync.objectstore.info import ObjectInfo, load
from jetsync.objectstore.place import Place, gone

__all__ = ["ObjectWatcher"]

_LOOK_AFTER = 0.5
"""So long nothing comes before the server is asked whether the initial objects are complete."""
_LEAST = 0.2
"""Seconds for a question in the middle of a call that may have none left."""


class ObjectWatcher:
    """An endless iterator over what happens to objects. Made by ``ObjectStore.watch``.

    First come the initial ones, those that were there when the watch began; :meth:`initial`
    iterates over them alone. Then it blocks until somebody puts, changes or deletes an object. What
    cannot be read is left out, and the connection's ``on_error`` hears of it (ObjectMetaError).

    For one thread at a time (misuse raises ConfigError); :meth:`stop` may be called by any. As a
    context manager it stops at the end.
    """

    def __init__(
        self,
        place: Place,
        deadline: Deadline,
        *,
        ignore_deletes: bool,
        include_history: bool,
        updates_only: bool,
    ) -> None:
        self._place = place
        self._subject = f"{place.prefix}M.>"
        self._ignore_deletes = ignore_deletes
        self._stopped = False
        self._end = 0  # the last initial message
        if updates_only:
            policy = "new"
        else:
            policy = "all" if include_history else "last_per_subject"
            self._end = self._ask(deadline)
        try:
            self._ordered = place.js.ordered_consumer(
                place.stream.name,
                filter_subjects=self._subject,
                deliver_policy=policy,
                timeout=deadline.remaining(),
            )
        except StreamNotFoundError as error:
            raise gone(place.bucket) from error
        self._messages = self._ordered.messages()
        self._initial_done = not self._end

    @property
    def initial_done(self) -> bool:
        """Whether all initial objects were handed out; what comes now are changes."""
        return self._initial_done

    def next(self, timeout: Seconds | None = None) -> ObjectInfo:
        """Return the next change. Blocks up to ``timeout`` seconds (None: no limit).

        Raises TimeoutError when none came, ObjectStoreNotFoundError when the bucket is gone,
        JetStreamError when it was made again, ConnectionClosedError after :meth:`stop`.
        """
        info = self._next(Deadline(timeout), initial=False)
        if info is None:
            raise TimeoutError(
                f"nothing happened in bucket {self._place.bucket!r} in time", operation="next"
            )
        return info

    def initial(self, timeout: Seconds | None = None) -> Iterator[ObjectInfo]:
        """Iterate over the initial objects and end when all were handed out.

        The whole iteration blocks up to ``timeout`` seconds (None: no limit) and raises
        TimeoutError then; otherwise it raises like :meth:`next`.
        """
        deadline = Deadline(timeout)
        while (info := self._next(deadline, initial=True)) is not None:
            yield info
        if not self._initial_done:
            raise TimeoutError(
                f"the initial objects of bucket {self._place.bucket!r} did not come in time",
                operation="initial",
            )

    def __iter__(self) -> Iterator[ObjectInfo]:
        return self

    def __next__(self) -> ObjectInfo:
        try:
            return self.next()
        except ConnectionClosedError:
            if not self._stopped:
                raise
            raise StopIteration from None

    def _next(self, deadline: Deadline, *, initial: bool) -> ObjectInfo | None:
        """The next one; None if the time is up, or there is none more of the initial ones."""
        while not (initial and self._initial_done):
            done = self._initial_done
            wait = deadline.remaining() if done else deadline.within(_LOOK_AFTER)
            try:
                info = self._read(self._messages.next(timeout=wait))
            except TimeoutError:
                if deadline.expired:
                    return None
                self._look(deadline)
                continue
            except StreamNotFoundError as error:
                raise gone(self._place.bucket) from error
            if info is not None and not (self._ignore_deletes and info.deleted):
                return info
        return None

    def _read(self, msg: JetStreamMsg) -> ObjectInfo | None:
        metadata = msg.metadata
        self._initial_done = self._initial_done or metadata.stream_seq >= self._end
        try:
            return load(msg.data, self._place.bucket, metadata.timestamp_ns)
        except ObjectMetaError as error:
            self._place.js._nc._post("error", error)
            return None

    def _look(self, deadline: Deadline) -> None:
        """Nothing comes although something should: it may have been removed before its turn."""
        seconds = max(deadline.within(self._place.js._api.timeout), _LEAST)
        try:
            end = self._ask(Deadline(seconds))
        except (TimeoutError, DisconnectedError):
            return  # nobody can tell now
        self._initial_done = end <= self._ordered.last_seq

    def _ask(self, deadline: Deadline) -> int:
        """The last message about any object; 0 if there is none."""
        try:
            last = self._place.stream.get_last_msg(self._subject, timeout=deadline.remaining())
        except MessageNotFoundError:
            return 0
        except StreamNotFoundError as error:
            raise gone(self._place.bucket) from error
        return last.seq

    # -- ending ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the watch and delete its server consumer. Does not wait for it. Safe to repeat; any
        thread: one that waits in :meth:`next` is woken."""
        self._stopped = True
        self._ordered.close()

    def __enter__(self) -> ObjectWatcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"ObjectWatcher({self._place.bucket!r}, behind {self._ordered.last_seq})"
