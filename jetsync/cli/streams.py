"""The standard streams of the process, made fit for all that commands print and read."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO

__all__ = ["accept_all", "give_up", "open_missing"]


def open_missing() -> None:
    """Give the process the null device in place of each standard stream that it was started
    without (``2>&-``). Python has None there, and the next socket could get its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest free descriptor is the missing one, or one that nothing else uses.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def accept_all(stream: TextIO, *, json: bool) -> None:
    """Let a stream print any text. JSON is UTF-8 whatever the terminal's encoding is; other text
    shows what that encoding lacks as an escape such as ``\\xe9``."""
    if isinstance(stream, io.TextIOWrapper):
        if json:
            stream.reconfigure(encoding="utf-8")
        else:
            stream.reconfigure(errors="backslashreplace")


def give_up(stream: TextIO) -> None:
    """Lead a stream that takes nothing more, since its disk is full or its reader is gone, to the
    null device: what it still holds would fail once more at the end of the process."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
