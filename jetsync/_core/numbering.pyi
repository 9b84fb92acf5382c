"""Numbering: the reply subjects, header blocks and automatic ids of numbered messages."""

class Numbering:
    """The parts that differ between numbered messages. For one thread at a time."""

    def __new__(
        cls, reply_prefix: bytes, id_prefix: bytes | None, fixed: bytes, key: bytes = ...
    ) -> Numbering: ...
