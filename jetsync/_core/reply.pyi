"""Reply: a subject for the answers to one question, and the mailbox of what comes there."""

from types import TracebackType
from typing import Any

from jetsync._core.inbound import Inbound
from jetsync._core.index import Index
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound

class Reply:
    """A reply subject that no other request ever had, and the mailbox of what comes there.

    It belongs to the link at the time when it is made, or without one to the next link, and ends
    with it.

    ``-`` and anything may follow the subject, to tell several replies apart. A context manager;
    dropping the object closes it, so that an interrupt leaves nothing behind.
    """

    def __new__(
        cls,
        inbound: Inbound,
        outbound: Outbound,
        asked: Index[str, Any],
        prefix: str,
        question: str | None,
        owner: object,
    ) -> Reply: ...
    @property
    def mailbox(self) -> Mailbox: ...
    @property
    def subject(self) -> str: ...
    @property
    def link(self) -> int:
        """The number of its link."""

    @property
    def is_over(self) -> bool:
        """Whether a question that is asked now would get no answer."""

    def close(self) -> None:
        """Expect nothing more; what still comes is dropped and counted. Safe to repeat."""

    def __enter__(self) -> Reply: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        tb: TracebackType | None = None,
    ) -> None: ...
