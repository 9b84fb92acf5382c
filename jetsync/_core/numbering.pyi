"""Numbering: the reply subjects, header blocks and automatic ids of numbered messages."""

class Numbering:
    """What differs from one numbered message to the next. For one thread at a time."""

    def __new__(
        cls, reply_prefix: bytes, id_prefix: bytes | None, fixed: bytes, key: bytes = ...
    ) -> Numbering: ...
