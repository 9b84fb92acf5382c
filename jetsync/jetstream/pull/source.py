"""Source: what differs between pulling from a plain consumer and from an ordered one.

The loops in ``pull/batch.py`` and ``pull/messages.py`` are the same for both. They ask the source
for the inbox to pull on, and tell it what happened there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from jetsync._deadline import Deadline
from jetsync.errors import Error
from jetsync.jetstream.api import API
from jetsync.jetstream.config.consumer_info import ConsumerInfo
from jetsync.jetstream.pull.inbox import PullInbox
from jetsync.jetstream.pull.state import Ended
from jetsync.jetstream.pull.statuses import Fate

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["PlainSource", "PulledConsumer", "Source"]


class PulledConsumer(Protocol):
    """The attributes of a consumer that pulling uses; implemented by ``consumers/shared.py``."""

    api: API
    port: Port
    stream_name: str
    name: str
    cached_info: ConsumerInfo
    ack_none: bool
    """Whether its messages are not acknowledged."""
    pins: dict[str, str]
    """The ids by which the server knows this process in priority groups that pin a client."""

    @property
    def delivers_again(self) -> bool:
        """Whether a message that is handed back is delivered again in any case."""

    def keep_left(self, inbox: PullInbox) -> None:
        """Keep what a closed inbox had got before the server knew, for the next call."""


class Source(Protocol):
    """One consumer, or a succession of them. For one thread at a time."""

    is_lasting: bool
    """Whether its inbox is always the same and accepts every message: then ``open`` and ``accept``
    do nothing."""

    @property
    def inbox(self) -> PullInbox | None:
        """The inbox of a lasting source; None for others."""

    @property
    def takes_singly(self) -> bool:
        """Whether each message is checked before the next one is taken."""

    def open(self, deadline: Deadline, over: Callable[[], bool]) -> PullInbox | None:
        """Return the inbox to pull on; None when there was none in time, or it is ``over``.

        Raises when reading cannot go on. May block until the deadline.
        """

    def on_end(self, inbox: PullInbox, ended: Ended) -> Error | None:
        """A pull has ended. Returns the error if the consumer cannot be pulled any more, or
        refused the pull."""

    def on_silence(self, inbox: PullInbox) -> Error | None:
        """The server has gone silent; the pulls of the inbox are called off. Returns the error if
        the consumer cannot be pulled any more."""

    def on_new_link(self, inbox: PullInbox) -> None:
        """The link is another one; the pulls of the inbox were lost with the one before."""

    def on_finished(self, inbox: PullInbox) -> Exception | None:
        """Nothing will come on the inbox any more: the server refused it, or the connection
        drains. Returns the error if reading cannot go on."""

    def accept(self, inbox: PullInbox, start: int) -> bool:
        """Judge the messages of the inbox's batch from ``start`` on; False: they are no good."""

    def discarded(self) -> None:
        """The loop has dropped the messages of the batch."""


class PlainSource:
    """One consumer on one inbox; lost pulls are sent again."""

    is_lasting = True
    takes_singly = False

    def __init__(self, inbox: PullInbox) -> None:
        self.inbox = inbox

    def open(self, deadline: Deadline, over: Callable[[], bool]) -> PullInbox:
        return self.inbox

    def on_end(self, inbox: PullInbox, ended: Ended) -> Error | None:
        if ended.fate is Fate.LOST:
            return inbox.why_gone()
        if ended.fate in (Fate.FATAL, Fate.WARN):
            return inbox.refusal(ended)
        return None

    def on_silence(self, inbox: PullInbox) -> Error | None:
        # A server before 2.11 answers no pull of a consumer that does not exist.
        return inbox.why_gone()

    def on_new_link(self, inbox: PullInbox) -> None:
        pass

    def on_finished(self, inbox: PullInbox) -> Exception | None:
        return inbox.why_finished

    def accept(self, inbox: PullInbox, start: int) -> bool:
        return True

    def discarded(self) -> None:
        pass

    def __repr__(self) -> str:
        return repr(self.inbox.consumer)
