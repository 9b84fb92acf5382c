"""The mutexes of csrc/link: one table in docs/internals/threads.md, one order in the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = ROOT / "csrc/link"


def documented() -> list[tuple[str, str]]:
    """The rows of the table: name of the order, structure that the mutex belongs to."""
    text = (ROOT / "docs/internals/threads.md").read_text()
    table = text.split("| mutex | of | guards |")[1].split("\n\n")[0]
    return re.findall(r"^\| ([A-Z_]+) \| `(\w+)` \|", table, re.M)


def test_the_documented_order_of_mutexes_is_the_one_in_the_code():
    header = (LINK / "link_sync.h").read_text()
    order = re.findall(r"LINK_ORDER_(\w+)[^/]*/\* (\w+):", header)
    assert documented() == order


def test_every_mutex_is_in_the_table_and_made_with_its_order():
    made = set()
    for path in LINK.glob("*.c"):
        for name in re.findall(r"link_mutex_init\(&\w+->\w+, LINK_ORDER_(\w+)\)", path.read_text()):
            made.add((name, path.stem))
    assert made == set(documented())
