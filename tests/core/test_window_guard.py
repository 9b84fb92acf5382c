"""The GIL guards a publish window: no method gives it up once it has begun to change something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "jetsync" / "_core"
SOURCES = ("in_flight", "window", "futures", "bulk", "numbering")
GIVES_UP = re.compile(r"\bnogil\b|\bPyErr_CheckSignals\b|\bacquire\(|\b_fill\(")


def code(name: str) -> str:
    """The source without comments, docstrings and declarations of C functions."""
    text = re.sub(r'"""[\s\S]*?"""', "", (CORE / f"{name}.pyx").read_text())
    return "\n".join(
        line.split("#")[0]
        for line in text.splitlines()
        if not line.startswith(("cdef extern", "from ", "import "))
    )


@pytest.mark.parametrize("name", SOURCES)
def test_the_gil_is_kept(name):
    waits = GIVES_UP.findall(code(name))
    # `collect` waits for its turn and for the first answer, before it touches the window.
    assert waits == (["acquire(", "_fill("] if name == "window" else [])


@pytest.mark.parametrize("path", sorted(CORE.glob("*.pyx")), ids=lambda p: p.stem)
def test_the_core_has_no_list_comprehension(path):
    """What Cython 3.3 makes of one drops an element twice when there is no memory to append it."""
    assert not re.findall(r"(?:return|=|\() ?\[[^\]\n]* for \w+ in", code(path.stem))


def test_what_collect_waits_for_comes_before_its_first_change():
    body = code("window").split("def collect(")[1].split("def _read_answer")[0]
    assert body.index("acquire(") < body.index("_fill(") < body.index("_read_answer(")
    assert body.index("_fill(") < body.index("_advance(")
