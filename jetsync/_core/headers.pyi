"""Headers of received messages: the first value of a name is found without a Python frame."""

from typing import Any

from jetsync.headers import Headers

class ReceivedHeaders(Headers):
    """Headers as they came, which read their block in C. Everything else is as in `Headers`."""

    # As in Headers, where the types are told apart.
    def get(self, name: str, default: Any = None, /) -> Any: ...

def received(raw: bytes) -> ReceivedHeaders:
    """Make headers of a block from the wire. Never raises: what cannot be read is counted."""

def parent_texts(blocks: list[bytes]) -> bytes | None: ...
def read_parents(texts: bytes) -> list[tuple[int, int, int]]: ...
def trace_parents(blocks: list[bytes], baggage: bool = False) -> list[tuple[int, int, int]] | None:
    """Return the W3C trace contexts of header blocks, each once.

    `[(trace_id, span_id, flags), ...]`, or None where a block has a tracestate too: that is for a
    propagator to read.
    """

def unsampled_parent() -> str:
    """Return a W3C traceparent that is not sampled, with ids that no other has."""

def forget_ids() -> None:
    """In a forked child: its parent uses the ids that were drawn."""
