"""Ids: 22 characters, never the same twice - not in threads, not in a forked child."""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys
import threading
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest

from jetsync.errors import ConfigError
from jetsync.protocol.ids import Nuid, check_inbox_prefix, new_inbox, next_nuid
from jetsync.protocol.subjects import check_publish_subject, subject_matches

SHAPE = re.compile(r"[0-9A-Za-z]{22}")


def test_an_id_has_22_base62_characters() -> None:
    for _ in range(1000):
        assert SHAPE.fullmatch(next_nuid())


def test_an_id_says_nothing_about_the_next_one() -> None:
    """Every place of an id takes every digit, all about as often, whatever came before."""
    nuid = Nuid()
    ids = [nuid.next() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    for place in range(22):
        counts = collections.Counter(one[place] for one in ids)
        assert len(counts) == 62
        assert max(counts.values()) < 2 * min(counts.values())  # 161 each; 2 is ten deviations off
    alike = [sum(a == b for a, b in zip(one, two, strict=True)) for one, two in pairwise(ids)]
    assert max(alike) < 8  # of 22 places; by chance one in 62


def test_threads_never_make_the_same_id() -> None:
    nuid = Nuid()
    made: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(mine: list[str]) -> None:
        start.wait()
        mine.extend(nuid.next() for _ in range(2000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [one for mine in made for one in mine]
    assert len(set(every)) == len(every) == 16_000


def test_a_signal_handler_in_the_middle_takes_an_id_of_its_own() -> None:
    """A handler runs between any two steps of the function that it interrupts."""
    nuid = Nuid()
    made: list[str] = []

    def handler(frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            sys.settrace(None)
            made.append(nuid.next())
            sys.settrace(handler)
        return handler

    before = sys.gettrace()
    try:
        for _ in range(300):
            sys.settrace(handler)
            one = nuid.next()
            sys.settrace(None)
            made.append(one)
    finally:
        sys.settrace(before)
    assert len(made) > 900
    assert len(set(made)) == len(made)


def test_another_process_id_throws_the_ids_of_the_parent_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a forked child sees: the same object, another process id."""
    nuid = Nuid()
    nuid.next()
    copy = {one for one in nuid._ids}
    nuid._ids = iter(copy)
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert len(copy) > 10
    assert not copy & {nuid.next() for _ in range(100)}


FORK = """
import os
from jetsync.protocol.ids import next_nuid

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


def test_an_inbox_is_a_subject_under_its_prefix() -> None:
    assert subject_matches("_INBOX.*", new_inbox())
    assert subject_matches("my.app.*", new_inbox("my.app"))
    assert check_publish_subject(new_inbox())
    assert new_inbox() != new_inbox()


@pytest.mark.parametrize("prefix", ["_INBOX", "a.b.c", "_INBOX_é", "x" * 1024])
def test_a_usable_inbox_prefix_comes_back(prefix: str) -> None:
    assert check_inbox_prefix(prefix) == prefix


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a b",
        "a\r\n",
        "a\x7f",
        "*",
        "a.*",
        "a.>",
        ">",
        "x" * 1025,
        None,
        b"_INBOX",
    ],
)
def test_an_inbox_prefix_that_makes_no_subject_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="inbox_prefix"):
        check_inbox_prefix(prefix)
