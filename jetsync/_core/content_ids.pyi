"""ContentIds: message ids made of what the rows hold, a whole record batch at a time."""

from jetsync._core.arrow_rows import ArrowRows

def digest_rows(
    rows: ArrowRows,
    data: str,
    subject_column: str | None,
    subject: bytes | None,
    headers_column: str | None,
) -> int:
    """Return a number of 64 bits that stands for the rows of a batch in any order."""

class ContentIds:
    """Ids ``PREFIX.DIGEST.COUNT``; the count tells equal rows apart. Safe in several threads."""

    def __new__(cls, prefix: bytes, limit: int) -> ContentIds: ...
    def column(
        self,
        rows: ArrowRows,
        data: str,
        subject_column: str | None,
        subject: bytes | None,
        headers_column: str | None,
    ) -> tuple[bytes, bytes]: ...
