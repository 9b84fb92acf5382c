"""The memory of a process that reads: what one batch has freed, the next one uses again.

The C library of most Linux systems gives freed memory back, and every 4 KiB that the next batch
asks for again is a page fault: a quarter of the CPU time of reading small messages.
"""

from __future__ import annotations

import ctypes
import functools
import os

__all__ = ["keep_freed_memory"]

KEPT = 64 << 20
"""Bytes at the end of each of its areas that the C library keeps."""
_LARGE = 32 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@functools.cache
def keep_freed_memory() -> bool:
    """Let this process keep memory that it has freed; once per process. Does not block.

    Returns False, and changes nothing, where the user's environment has settings of his own or the
    C library knows none.
    """
    if any(name in os.environ for name in _VARIABLES):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGE) and mallopt(_TRIM_THRESHOLD, KEPT))
