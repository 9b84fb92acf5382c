"""InFlight: numbered publishes that are not confirmed, in the order in which they leave."""

from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound

class InFlight:
    """Numbered messages and their frames, up to a bound. One thread adds, any may do the rest."""

    ended: bool

    def __new__(
        cls,
        outbound: Outbound,
        mailbox: Mailbox,
        reply_prefix: bytes,
        id_prefix: bytes | None,
        fixed: bytes,
        capacity: int,
        capacity_bytes: int = ...,
        only_linked: bool = ...,
        ring: int = ...,
        most: int = ...,
        domain: bytes = ...,
        expected: bytes = ...,
        key: bytes = ...,
    ) -> InFlight: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def open_count(self) -> int: ...
    @property
    def oldest(self) -> int: ...
    @property
    def added(self) -> int: ...
    @property
    def capacity_now(self) -> int: ...
    @property
    def full(self) -> bool: ...
    @property
    def stored(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def first_seq(self) -> int: ...
    @property
    def last_seq(self) -> int: ...
    def trim(self) -> None: ...
    def flush(self) -> bool: ...
    @property
    def has_turn(self) -> bool: ...
    def settle(self, number: int) -> bool: ...
