"""No thread waits for a queue of messages with the GIL held: the reader keeps its mutex while
it copies what came, and all of Python would stand still for so long."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "jetsync" / "_core"
DECLARED = re.compile(r"^\w[\w *]*?\b(link_(?:queue|group)_\w+)\(([^;{]*)\) \{$", re.MULTILINE)


def waiting() -> dict[str, bool]:
    """Every function that takes the mutex of a queue or of a group of queues, and whether it can be
    told not to wait."""
    found = {}
    for name in ("link_queue", "link_group"):
        text = (ROOT / "csrc" / "link" / f"{name}.c").read_text()
        for function in DECLARED.finditer(text):
            body = text[function.end() : text.index("\n}", function.end())]
            if re.search(r"\blink_(lock|enter)\(", body):
                found[function[1]] = "int may_wait" in function[2]
    return found


def calls(path: Path, names: dict[str, bool]) -> list[tuple[str, str, bool]]:
    """Each call in a source of Cython: function, arguments, whether the GIL is given up."""
    text = re.sub(r'"""[\s\S]*?"""', lambda m: "\n" * m[0].count("\n"), path.read_text())
    found: list[tuple[str, str, bool]] = []
    without: list[int] = []  # the indents of blocks and functions without the GIL
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip():
            without = [one for one in without if one < indent]
        if re.search(r"\bnogil:", line):
            without.append(indent)
        for name in names:
            for call in re.finditer(rf"\b{name}\((.*)", line):
                if call.start() and not line.lstrip().startswith(("void ", "bint ", "size_t ")):
                    found.append((name, call[1], bool(without)))
    return found


def test_a_call_that_may_wait_for_the_reader_has_given_the_gil_up():
    names = waiting()
    assert len(names) > 12
    assert names["link_queue_counts"]
    assert not names["link_queue_finish"]
    used = set()
    for path in sorted((*CORE.glob("*.pyx"), *CORE.glob("*.pxd"))):
        if path.name == "link.pxd":  # declarations only
            continue
        for name, arguments, without_gil in calls(path, names):
            tries = names[name] and re.search(r"\bFalse\b", arguments) is not None
            assert without_gil != tries, f"{path.name}: {name}({arguments}"
            used.add(name)
    assert {"link_queue_counts", "link_queue_finish", "link_group_take", "link_queue_rest"} <= used
