"""Dispatch: threads that give what comes into mailboxes to callbacks."""

from collections.abc import Callable
from typing import Any

from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox

class Task:
    """Handles the messages of one mailbox, on one thread at a time."""

    def __init__(
        self,
        mailbox: Mailbox,
        callback: Callable[[Any], Any] | None,
        report: Callable[[BaseException, Any], Any],
        ended: Callable[[BaseException | None], Any],
        step: Callable[[], Mailbox | None] | None = None,
    ) -> None: ...
    @property
    def on_this_thread(self) -> bool: ...

class Group:
    """The tasks of one connection and the threads that run them. Thread-safe."""

    def __new__(cls, inbound: Inbound, most: int) -> Group: ...
    def add(self, task: Task) -> bool: ...
    @property
    def has_threads(self) -> bool: ...
    def begin(self, task: Task) -> None: ...
    def remove(self, task: Task) -> None: ...
    def work(self) -> None: ...
    def abandon(self) -> None: ...
