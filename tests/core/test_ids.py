"""Ids: 22 characters, never the same twice - not in threads, not in a forked child."""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys
import threading
from itertools import pairwise

from jetsync._core.ids import next_nuid

SHAPE = re.compile(r"[0-9A-Za-z]{22}")


def test_an_id_has_22_base62_characters() -> None:
    for _ in range(1000):
        assert SHAPE.fullmatch(next_nuid())


def test_an_id_says_nothing_about_the_next_one() -> None:
    """Every place of an id takes every digit, all about as often, whatever came before."""
    ids = [next_nuid() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    for place in range(22):
        counts = collections.Counter(one[place] for one in ids)
        assert len(counts) == 62
        assert max(counts.values()) < 2 * min(counts.values())  # 161 each; 2 is ten deviations off
    alike = [sum(a == b for a, b in zip(one, two, strict=True)) for one, two in pairwise(ids)]
    assert max(alike) < 8  # of 22 places; by chance one in 62


def test_threads_never_make_the_same_id() -> None:
    made: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(mine: list[str]) -> None:
        start.wait()
        mine.extend(next_nuid() for _ in range(2000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [one for mine in made for one in mine]
    assert len(set(every)) == len(every) == 16_000


FORK = """
import os
from jetsync._core.ids import next_nuid

next_nuid()
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(writer, " ".join(next_nuid() for _ in range(50)).encode())
    os._exit(0)
os.close(writer)
mine = {next_nuid() for _ in range(50)}
with os.fdopen(reader) as pipe:
    theirs = set(pipe.read().split())
assert os.waitpid(child, 0)[1] == 0
assert len(mine) == len(theirs) == 50
assert not mine & theirs
"""


def test_a_forked_child_repeats_no_id_of_its_parent() -> None:
    """In a process of its own, since forking one that has threads is not to be relied on."""
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", FORK], env=path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
