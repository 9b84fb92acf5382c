"""What this process holds: memory, threads, descriptors."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from pathlib import Path
from typing import NamedTuple

MIB = 2**20


def resident() -> float:
    """The memory of this process that is really there, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def settled() -> float:
    """The same, after all unused memory went back to the system."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return resident()


class Holdings(NamedTuple):
    """How many threads and descriptors there are."""

    threads: int
    descriptors: int

    @classmethod
    def now(cls) -> Holdings:
        return cls(threading.active_count(), len(os.listdir("/proc/self/fd")))
