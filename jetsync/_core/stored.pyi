"""Messages of a direct get: the server adds lines about each behind its headers."""

from jetsync._core.message import Msg

class StoredFactory:
    """Builds messages as they were published, and leaves the server's lines in `_lines`."""

    def __init__(
        self, msg_type: type[Msg], owner: object | None = None, context: object | None = None
    ) -> None: ...

def parse_stored(raw_headers: bytes) -> tuple[str, str, int, int, int, bytes] | None: ...
