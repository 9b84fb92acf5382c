"""The Python examples of a page of documentation."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDRESS = "nats://127.0.0.1:4222"


def python_blocks(page: str) -> list[str]:
    """Return the code of every Python block of a page, named by its path in the checkout."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
