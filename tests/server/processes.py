"""Looking at processes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from jetsync.server import NatsServer


def scratch_of(server: NatsServer) -> Path:
    """The temporary folder of a server that was started without a store of its own."""
    assert server.store_dir is not None
    return server.store_dir.parent


def is_alive(pid: int | None) -> bool:
    """Whether a process runs. One that has ended but was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children() -> set[int]:
    """The processes that this one has started and not collected yet, dead ones too."""
    found: set[int] = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found.update(map(int, (task / "children").read_text().split()))
    return found
