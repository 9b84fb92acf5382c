"""Threads of the library: names, signals, and results of functions that run beside."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path

import pytest

import jetsync
from jetsync._threads import Thread, ThreadPool, Threads, library_threads, start_thread
from tests.harness.waiting import wait_until


def test_a_thread_is_named_after_its_role_and_has_a_number_of_its_own():
    go = threading.Event()
    first, second = (start_thread("test-role", go.wait) for _ in range(2))
    of_a_connection = start_thread("test-role", go.wait, 7)
    try:
        heads = {t.name.rpartition("-")[0] for t in (first, second, of_a_connection)}
        assert heads == {"jetsync-test-role"}
        assert int(second.name.rpartition("-")[2]) > int(first.name.rpartition("-")[2])
        assert of_a_connection.name == "jetsync-test-role-7"
        assert {first, second, of_a_connection} <= library_threads()
    finally:
        go.set()
        for thread in (first, second, of_a_connection):
            thread.join(5)
    assert not {first, second, of_a_connection} & library_threads()


def test_a_thread_takes_no_signals_and_does_not_hold_a_program_up():
    masked = []
    thread = start_thread(
        "test", lambda: masked.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    )
    thread.join(5)
    assert thread.daemon
    assert {signal.SIGINT, signal.SIGTERM} <= masked[0]


def test_a_process_lists_its_signals_once_and_not_for_each_thread(monkeypatch):
    """To list them costs more CPU time than to start a thread."""
    start_thread("test", int).join(5)
    monkeypatch.setattr(signal, "valid_signals", None)
    said = []
    thread = start_thread("test", lambda: said.append("ran"))
    thread.join(5)
    assert said == ["ran"]


def test_functions_run_one_after_another_and_their_results_are_handed_out():
    with ThreadPool("test") as single:
        futures = [single.submit(lambda n=n: (n, threading.get_ident())) for n in range(50)]
        results = [future.result(5) for future in futures]
        failed = single.submit(int, "no number")
        with pytest.raises(ValueError, match="no number"):
            failed.result(5)
    assert [n for n, _ in results] == list(range(50))
    assert len({ident for _, ident in results}) == 1
    assert not [t for t in library_threads() if t.name.startswith("jetsync-test-")]


def test_functions_of_a_pool_run_side_by_side():
    meeting = threading.Barrier(3)
    with ThreadPool("test", 3) as pool:
        futures = [pool.submit(meeting.wait, 5) for _ in range(3)]
        assert sorted(future.result(10) for future in futures) == [0, 1, 2]


# -- the threads of a connection, which its end waits for ------------------------------------------


@pytest.fixture
def slow_start(monkeypatch):
    """Threads that wait to be let go between being noted and being started."""
    begun, go, start = threading.Event(), threading.Event(), Thread.start

    def slow(thread):
        begun.set()
        assert go.wait(20)
        start(thread)

    monkeypatch.setattr(Thread, "start", slow)
    return begun, go


def test_the_end_waits_for_a_thread_that_is_being_started(slow_start):
    begun, go = slow_start
    threads, ran = Threads("x"), threading.Event()
    starting = threading.Thread(target=threads.start, args=("test", ran.set))
    ending = threading.Thread(target=threads.join, args=(20,))
    starting.start()
    assert begun.wait(20)
    ending.start()
    ending.join(0.1)
    assert ending.is_alive()
    go.set()
    ending.join(20)
    assert ran.is_set()
    starting.join(20)


def test_no_thread_is_started_behind_the_end(monkeypatch):
    threads, started = Threads("x"), []
    monkeypatch.setattr(Thread, "start", started.append)
    ending = threading.Thread(target=threads.join, args=(20,))

    class Overtaken(dict[Thread, int]):
        """The end comes as soon as a thread is noted, and does not wait for one that never runs."""

        def __setitem__(self, thread, starter):
            super().__setitem__(thread, starter)
            ending.start()
            wait_until(lambda: threads._ended)

    threads._noted = Overtaken()
    with pytest.raises(jetsync.ConnectionClosedError):
        threads.start("test", print)
    ending.join(5)
    assert not ending.is_alive()
    threads._noted = {}
    with pytest.raises(jetsync.ConnectionClosedError):
        threads.start("test", print)
    assert started == []


def test_a_signal_handler_that_closes_does_not_wait_for_what_it_interrupted(monkeypatch):
    """The thread that it interrupted was starting one, which cannot begin before it returns."""
    threads, started = Threads("x"), threading.Event()
    start = Thread.start

    def interrupted(thread):
        threads.join(20)
        start(thread)

    monkeypatch.setattr(Thread, "start", interrupted)
    starting = threading.Thread(target=threads.start, args=("test", started.set))
    starting.start()
    assert started.wait(5)
    starting.join(5)


def test_a_thread_that_the_system_refuses_is_not_waited_for(monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    threads = Threads("x")
    with pytest.raises(RuntimeError):
        threads.start("test", print)
    monkeypatch.undo()
    ending = threading.Thread(target=threads.join, args=(20,))
    ending.start()
    ending.join(5)
    assert not ending.is_alive()


def test_what_serves_a_connection_is_started_where_its_end_finds_it():
    """But for the timer, the reader and the writer, and the thread of events, which end by an order
    of their own."""
    package = Path(jetsync.__file__).parent
    others = {"timer.py", "session.py", "events.py"}
    found = [
        path.relative_to(package)
        for room in ("client", "jetstream", "kv", "objectstore", "observe", "services")
        for path in (package / room).rglob("*.py")
        if path.name not in others and re.search(r"(?<!\.)\bstart_thread\(", path.read_text())
    ]
    assert found == [Path("client/port.py")]  # which defines it
