"""Ids: 22 characters, never the same twice - not in threads, not in a forked child."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading

import pytest

from jetsync.errors import ConfigError
from jetsync.protocol.ids import Nuid, check_inbox_prefix, new_inbox, next_nuid
from jetsync.protocol.subjects import check_publish_subject, subject_matches

SHAPE = re.compile(r"[0-9A-Za-z]{22}")


def test_an_id_has_22_base62_characters() -> None:
    for _ in range(1000):
        assert SHAPE.fullmatch(next_nuid())


def test_ids_of_one_thread_grow_behind_one_prefix() -> None:
    nuid = Nuid()
    ids = [nuid.next() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert len({one[:12] for one in ids}) == 1
    assert ids == sorted(ids)


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
    assert len({one[:12] for one in every}) == 8  # nothing is shared that could be raced for


def test_a_new_process_id_takes_a_new_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a forked child sees: the same object, another process id."""
    nuid = Nuid()
    before = nuid.next()
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    in_child = nuid.next()
    assert in_child[:12] != before[:12]
    assert nuid.next()[:12] == in_child[:12]


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
