"""Dispatcher: the threads of a connection that call the user's callbacks with messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from jetsync._core.dispatch import Group, Task
from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox, abandon
from jetsync._threads import Thread, Threads

__all__ = ["RECOVERING", "Dispatcher", "Task"]

RECOVERING = 16
"""Threads of a connection on which readers wait for the server at a time."""


class Dispatcher:
    """Runs the callbacks of one connection on at most ``most`` threads. Thread-safe.

    Up to that number each callback has a thread; beyond it they share. A thread starts with a
    callback and ends when there are more threads than callbacks. The messages of one subscription
    go to its callback one by one and in order, whichever thread calls it.
    """

    def __init__(
        self, inbound: Inbound, threads: Threads, most: int, purpose: str = "dispatch"
    ) -> None:
        self.group: Group = Group(inbound, most)
        self._of_connection = threads
        self._purpose = purpose
        self._numbers = itertools.count(1)
        self._threads: dict[int, Thread] = {}

    def run(
        self,
        mailbox: Mailbox,
        callback: Callable[[Any], Any] | None,
        report: Callable[[BaseException, Any], Any],
        ended: Callable[[BaseException | None], Any],
        step: Callable[[], Mailbox | None] | None = None,
    ) -> Task:
        """Call back for every message of a mailbox from now on; see ``Task``. Does not block.

        Raises RuntimeError when the system has no thread for it, and none is running;
        ConnectionClosedError.
        """
        task = Task(mailbox, callback, report, ended, step)
        try:
            if self.group.add(task):
                try:
                    self._start()
                except RuntimeError:
                    if not self.group.has_threads:
                        raise
            self.group.begin(task)
        except BaseException:  # as of Ctrl-C, at any step: a thread that runs now ends by itself
            self.group.remove(task)
            raise
        return task

    def _start(self) -> None:
        for old, other in list(self._threads.items()):
            if not other.is_alive():
                self._threads.pop(old, None)
        number = next(self._numbers)
        self._threads[number] = self._of_connection.start(
            self._purpose, self.group.work, f"{self._of_connection.label}-{number}"
        )

    @property
    def on_this_thread(self) -> bool:
        """Whether the caller is one of the threads."""
        return any(thread.runs_here for thread in list(self._threads.values()))

    def abandon(self) -> None:
        """Forget the threads in a forked child, where they do not exist."""
        abandon(self.group)
        self.group.abandon()
