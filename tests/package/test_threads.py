"""Threads of the library: names, signals, and results of functions that run beside."""

from __future__ import annotations

import signal
import threading

import pytest

from jetsync._threads import ThreadPool, library_threads, start_thread


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
