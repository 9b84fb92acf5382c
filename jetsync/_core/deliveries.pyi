"""Deliveries: the messages of a push consumer, handed out without a Python frame for each."""

from collections.abc import Callable
from typing import Any

from jetsync._core.handles import Publishing
from jetsync._core.mailbox import Mailbox

class Sequences:
    """The sequences of the delivery that is accounted for last."""

    last: int | None
    stream: int
    def __init__(self, last: int | None, stream: int = 0) -> None: ...

class Deliveries:
    """The fast path of a push consumer: hands out the next delivery if it is the expected one."""

    mailbox: Mailbox
    sequences: Any  # Sequences or None; rooms above have a class of their own
    ordered: bool
    is_open: bool
    taken: int
    stop_at: int
    def __init__(self, nc: Publishing, mailbox: Mailbox) -> None: ...
    # Messages have the class of the mailbox; rooms narrow it themselves.
    def take(self) -> Any: ...
    def deliver(
        self,
        callback: Callable[[Any], object],
        report: Callable[[BaseException, Any], object],
        slow: Callable[[], Any],
        acknowledges: bool,
        most: int,
    ) -> None: ...

class DeliveryIterator:
    """Iterates over deliveries; `slow()` returns what is not handed out at once, or ends it."""

    def __init__(self, deliveries: Deliveries, slow: Callable[[], Any]) -> None: ...
    def __iter__(self) -> DeliveryIterator: ...
    def __next__(self) -> Any: ...
