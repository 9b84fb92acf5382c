"""The locks: mutexes of csrc/link and locks of Python code, as two tables in threads.md say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from jetsync._locks import ORDER, lock

ROOT = Path(__file__).parents[2]
MADE = re.compile(
    r"(\w+)(?:\.setdefault\(key,| =) (?:threading\.Condition\()?\w*lock\(\"([^\"]+)\"\)"
)
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


def test_the_documented_order_of_python_locks_is_the_one_in_the_code():
    text = (ROOT / "docs/internals/threads.md").read_text()
    table = text.split("| file | lock | guards, and who holds it |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([\w/.]+)` \| `(\w+)` \|", table, re.M)
    assert [f"{path} {name}" for path, name in rows] == list(ORDER)


def test_every_python_lock_is_made_with_its_name():
    made = set()
    for path in (ROOT / "jetsync").rglob("*.py"):
        text = path.read_text()
        place = path.relative_to(ROOT / "jetsync").as_posix()
        # contrib uses public names only, so its locks are outside of the order: holding one of them
        # it calls the public surface, and no thread of the library calls it with a lock held.
        if place == "_locks.py" or place.startswith("contrib/"):
            continue
        assert not re.search(r"\b(R?Lock|Semaphore)\(\)|Condition\(\)", text), place
        for attribute, name in re.findall(
            r"(\w+)(?:\.setdefault\(key,| =) (?:threading\.Condition\()?\w*lock\(\"([^\"]+)\"\)",
            text,
        ):
            assert name == f"{place} {attribute}"
            made.add(name)
    assert made == set(ORDER)


def debugging(program: str) -> str:
    """Run a program with the order asserted; return its last line."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "JETSYNC_DEBUG": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def test_a_debug_build_refuses_locks_in_the_wrong_order():
    begin = "from jetsync._locks import lock, rlock; import threading\n"
    upper, lower = '"jetstream/push/receiver.py _turn"', '"client/sockets.py _guard"'
    assert debugging(f"{begin}with rlock({upper}), rlock({lower}): print('fine')") == "fine"
    wrong = debugging(f"{begin}with rlock({lower}), rlock({upper}): print('fine')")
    first, second = lower.strip('"'), upper.strip('"')
    assert wrong == f"RuntimeError: {second} is taken while {first} is held"
    twice = f"{begin}a, b = lock({upper}), lock({upper})\nwith a, b: print('fine')"
    assert "is taken while" in debugging(twice)
    again = f"{begin}a = rlock({upper})\nwith a, a: print('fine')"
    assert debugging(again) == "fine"
    late = (
        f"{begin}a = lock({upper})\na.acquire()\nt = threading.Thread(target=a.release)\nt.start()"
    )
    assert "does not hold it" in debugging(late)
    wait = (
        f"{begin}c = threading.Condition(rlock({upper}))\n"
        "with c:\n    with c:\n        c.wait(0.01)\n        c.notify_all()\nprint('fine')"
    )
    assert debugging(wait) == "fine"


def test_without_debugging_a_lock_is_a_plain_one():
    assert type(lock(ORDER[0])) is type(threading.Lock())
