"""PullLine: one inbox of a consumer on its link. Sends pulls and takes what they bring."""

from collections.abc import Sequence
from typing import Any

from jetsync._core.batch import MsgBatch
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync._core.pulls import PullLedger, PullOptions

class PullLine:
    """The pulls of one consumer on one inbox. For one thread at a time."""

    # Rooms that set these declare them with their own types.
    consumer: Any
    mailbox: Mailbox
    state: Any
    batch: Any
    pin: Any
    sent_seq: int
    has_link_news: bool
    is_linked: bool
    closed: bool
    def _bind(
        self,
        consumer: object,
        subject: str,
        prefix: str,
        mailbox: Mailbox,
        state: PullLedger,
        outbound: Outbound,
        presence: object,
        batch_type: type[MsgBatch],
        round_trip: object,
    ) -> None: ...
    # Batches have the type that was given; rooms narrow it themselves.
    def new_batch(self) -> Any: ...
    def release(self) -> Any: ...
    def begin(self, limit: int) -> None: ...
    def adopt(self, batch: MsgBatch) -> None: ...
    @property
    def has_messages(self) -> bool: ...
    def pull(
        self,
        options: PullOptions,
        ack: object = None,
        *,
        is_exact: bool = False,
        seconds: float | None = None,
    ) -> int: ...
    def take(self, limit: int, wait: float | None = 0, least: int = 1) -> Sequence[Any]: ...
    def _on_statuses(self, statuses: list[Any]) -> Sequence[Any]: ...
    @property
    def waiting(self) -> int: ...
