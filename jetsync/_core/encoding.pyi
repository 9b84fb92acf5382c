"""Turns arguments into spans for the encoder, and its refusals into errors."""

from jetsync.headers import HeaderInput

def encode_headers(headers: HeaderInput | None) -> bytes: ...
def encode_message(
    subject: str,
    data: bytes | bytearray | memoryview = b"",
    reply: str | None = None,
    header: bytes = b"",
    max_payload: int | None = None,
    max_line: int = ...,
) -> bytes: ...
def encode_sub(subject: str, queue: str | None, sid: int, max_line: int = ...) -> bytes: ...
def encode_unsub(sid: int, max_messages: int = 0) -> bytes: ...
