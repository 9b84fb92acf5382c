"""The locks: mutexes of csrc/link and locks of Python code, as two tables in threads.md say."""

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


def test_every_lock_of_python_code_is_in_the_table():
    text = (ROOT / "docs/internals/threads.md").read_text()
    table = text.split("| file | lock | guards, and who holds it |")[1].split("\n\n")[0]
    documented = set(re.findall(r"^\| `([\w/.]+)` \| `(\w+)` \|", table, re.M))
    made = set()
    for path in (ROOT / "jetsync").rglob("*.py"):
        for name in re.findall(
            r"(\w+)(?:\.setdefault\(key,|(?:: threading\.RLock)? =) "
            r'(?:threading\.(?:R?Lock|Condition)|original\("_thread", "RLock"\))\(',
            path.read_text(),
        ):
            made.add((path.relative_to(ROOT / "jetsync").as_posix(), name))
    assert documented == made
