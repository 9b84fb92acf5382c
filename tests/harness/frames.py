"""Which Python functions a call enters: its cost, counted the same on any machine."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

__all__ = ["frames"]


def frames(function: Callable[[], object], within: str = "") -> Counter[str]:
    """Return how often each Python function was entered by this thread, by its name; ``function``
    itself is left out. ``within``: only those of the files whose paths begin so."""
    found: Counter[str] = Counter()
    itself = getattr(function, "__code__", None)

    def note(frame: Any, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code is not itself and code.co_filename.startswith(within):
            found[code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return found
