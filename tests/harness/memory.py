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


class _Account(ctypes.Structure):
    """``struct mallinfo2``."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def allocated() -> float | None:
    """MiB that the C library has given out and not got back; None where it does not tell. What it
    keeps for itself, such as the free end of a thread's arena, is not in it."""
    account = getattr(ctypes.CDLL(None), "mallinfo2", None)  # glibc 2.33
    if account is None:
        return None
    gc.collect()
    account.restype = _Account
    now = account()
    return float(now.uordblks + now.hblkhd) / 2**20


class Holdings(NamedTuple):
    """How many threads and descriptors there are."""

    threads: int
    descriptors: int

    @classmethod
    def now(cls) -> Holdings:
        return cls(threading.active_count(), len(os.listdir("/proc/self/fd")))
