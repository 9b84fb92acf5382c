"""The frames of an atomic batch whose messages are the rows of an Arrow record batch."""

from jetsync._core.arrow_rows import ArrowRows

def encode_batch_rows(
    rows: ArrowRows,
    subject_column: str | None,
    subject: bytes | None,
    data_column: str,
    headers_column: str | None,
    id_column: str | None,
    begin: bytes,
    number: int,
    commit_reply: bytes | None,
    max_payload: int,
    max_line: int,
) -> list[tuple[bytes, int]]: ...
