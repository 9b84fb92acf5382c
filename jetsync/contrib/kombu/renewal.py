"""Renewal: queues that age out stay for as long as a channel reads them."""

from __future__ import annotations

import dataclasses
import math
import os
import threading
import time
from typing import TYPE_CHECKING

from kombu.log import get_logger

from jetsync import Error
from jetsync.contrib.gevent import call
from jetsync.contrib.kombu.queues import QueueRecord

if TYPE_CHECKING:
    from jetsync.contrib.kombu.broker import Broker

__all__ = ["Declared", "Renewals"]

logger = get_logger("jetsync.contrib")

_AGAIN = 1.0
"""Seconds after a renewal that failed until the next one; and after which a closed connection is
seen."""
_END = 5.0


@dataclasses.dataclass(eq=False)
class Declared:
    """A queue as a channel has declared and bound it."""

    record: QueueRecord
    bound: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    failed: bool = False
    renew_at: float = 0.0

    def __post_init__(self) -> None:
        self.renewed()

    def renewed(self) -> None:
        """Its time begins anew."""
        expires = self.record.expires
        self.renew_at = math.inf if expires is None else time.monotonic() + expires / 3


class Renewals:
    """Renews queues on a thread of its own, which runs while there are any: a worker that is busy
    for longer than its queues live keeps them. Thread-safe."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._process = os.getpid()  # a forked child has no thread, and this lock may be held
        self._changed = threading.Condition()
        self._queues: dict[Declared, str] = {}
        self._thread: threading.Thread | None = None

    def keep(self, queue: str, declared: Declared) -> None:
        """Renew a queue from now on, if it ages out at all."""
        if declared.record.expires is None or os.getpid() != self._process:
            return
        with self._changed:
            self._queues[declared] = queue
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="jetsync-kombu-renewal", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def drop(self, declared: Declared) -> None:
        """Renew a queue no more. Blocks until the thread has ended when it was the last one."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._queues.pop(declared, None)
            thread = None if self._queues else self._thread
            self._changed.notify()
        if thread is not None:
            thread.join(_END)

    def _run(self) -> None:
        while (due := self._wait()) is not None:
            for declared, queue in due:
                self._renew(queue, declared)

    def _wait(self) -> list[tuple[Declared, str]] | None:
        """Wait until renewals are due and return them; None when there is nothing to renew."""
        with self._changed:
            while self._queues and not self._broker.nc.is_closed:
                now = time.monotonic()
                due = [(one, queue) for one, queue in self._queues.items() if one.renew_at <= now]
                if due:
                    return due
                next_at = min(one.renew_at for one in self._queues)
                self._changed.wait(min(next_at - now, _AGAIN))
            self._queues.clear()
            self._thread = None
            return None

    def _renew(self, queue: str, declared: Declared) -> None:
        """Renew one queue. Without a link, or when it fails, it is tried again: an outage ends
        nothing."""
        declared.renew_at = time.monotonic() + _AGAIN
        if not self._broker.nc.is_connected:
            return
        try:
            if declared.failed:
                call(self._broker.prepare)  # what was in memory may be lost
            call(self._broker.renew, queue, declared.record, list(declared.bound))
        except Error as error:
            logger.warning("queue %r is not renewed yet: %s", queue, error)
            declared.failed = True
        except Exception:  # this thread renews the other queues, too: it goes on
            logger.exception("queue %r is not renewed yet", queue)
            declared.failed = True
        else:
            declared.failed = False
            declared.renewed()
