"""What the conformance tests of publishing share."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import jetsync


@contextlib.contextmanager
def room(url: str, **fields: Any) -> Iterator[tuple[jetsync.JetStream, jetsync.Stream, str]]:
    """A JetStream, a memory stream with these fields of its own, and a prefix of its subjects."""
    name = "P" + uuid.uuid4().hex[:8]
    with jetsync.connect(url) as nc:
        js = nc.jetstream(timeout=20)
        # The server is not left without any stream in between.
        js.create_or_update_stream(name="PUBLISHKEEP", subjects=["publishkeep"], storage="memory")
        fields.setdefault("subjects", [f"{name}.>"])
        stream = js.create_stream(name=name, storage="memory", **fields)
        try:
            yield js, stream, name
        finally:
            stream.delete()
