"""BulkWindow: many publishes in flight with no Python object per message or acknowledgement."""

from typing import Any

from jetsync._core.arrow_rows import ArrowRows
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync._core.window import PublishWindow
from jetsync.errors import ConfigError

class ShapeError(ConfigError):
    """A row is not a message; the rows behind it are not tried."""

class BulkWindow(PublishWindow):
    """A window that is filled from rows, a chunk at a time. One thread adds."""

    def __init__(
        self,
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
    ) -> None: ...
    @property
    def rejected(self) -> list[tuple[int, Exception]]: ...
    def add_rows(self, rows: list[Any], start: int) -> int: ...
    def add_arrow(
        self,
        rows: ArrowRows,
        subject_column: str | None,
        subject: bytes | None,
        data_column: str,
        headers_column: str | None,
        id_column: str | None,
        start: int,
    ) -> int: ...
