"""From what a caller gave to what the encoder takes, and from its refusals to errors."""

from jetsync.headers import HeaderInput

def encode_headers(headers: HeaderInput | None) -> bytes: ...
