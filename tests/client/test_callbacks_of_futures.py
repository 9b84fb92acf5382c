"""The thread of callbacks, the meeting of futures and the timer, without a server."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

import jetsync
from jetsync._futures import MEETING, DoneCallbacks
from jetsync._native import NativeQueue
from jetsync._threads import Threads
from jetsync.client.futures import RequestFuture
from jetsync.client.timer import Timer


def settled(function):
    return SimpleNamespace(_callbacks=[function])


def test_what_is_put_after_the_end_is_called():
    threads = Threads("x")
    callbacks = DoneCallbacks("tested", threads.start, print)
    called = []
    callbacks.put(settled(called.append))
    callbacks.end()
    threads.join(20)
    callbacks.put(settled(called.append))
    assert len(called) == 2


def test_what_finds_no_thread_any_more_is_called_here():
    """The end of the connection may come between two steps of a thread that settles a future."""
    threads = Threads("x")
    reported: list[object] = []
    callbacks = DoneCallbacks("tested", threads.start, lambda *what: reported.append(what))
    threads.join(20)
    on: list[threading.Thread] = []
    callbacks.put(settled(lambda _: on.append(threading.current_thread())))
    assert on == [threading.current_thread()]
    assert reported == []


def test_many_threads_start_one_thread_for_callbacks(monkeypatch):
    monkeypatch.setattr("jetsync._futures._IDLE", 60)  # a slow machine does not end it meanwhile
    callbacks = DoneCallbacks("tested", Threads("x").start, print)
    threads, together, on = set(), threading.Barrier(8), NativeQueue()

    def put():
        together.wait(20)
        for _ in range(20):
            callbacks.put(settled(lambda _: on.put(threading.current_thread())))

    putting = [threading.Thread(target=put) for _ in range(8)]
    for thread in putting:
        thread.start()
    for _ in range(160):
        threads.add(on.get(timeout=20))
    callbacks.end()
    (thread,) = threads
    thread.join(20)
    assert not thread.is_alive()


def test_the_thread_of_callbacks_ends_when_there_are_none_and_starts_again():
    callbacks = DoneCallbacks("tested", Threads("x").start, print)
    for _ in range(2):
        called: NativeQueue[threading.Thread] = NativeQueue()
        callbacks.put(settled(lambda _, called=called: called.put(threading.current_thread())))
        thread = called.get(timeout=20)
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("function", [jetsync.wait, lambda fs: list(jetsync.as_completed(fs))])
def test_ctrl_c_while_many_futures_are_taken_leaves_the_next_wait_alone(function, monkeypatch):
    asking: Any = SimpleNamespace(check_process=lambda: None)
    futures = [RequestFuture(asking, "a") for _ in range(5)]
    acquire, calls = MEETING.acquire, []

    def interrupted():
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(acquire())

    monkeypatch.setattr(MEETING, "acquire", interrupted)
    with pytest.raises(KeyboardInterrupt):
        function(futures)
    monkeypatch.undo()
    free: list[int] = []

    def look():
        free.append(MEETING._lock.acquire(blocking=False))
        free.append(MEETING._depth)
        if free[0]:
            MEETING._lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(20)
    assert free == [True, 0]


def test_cancelled_calls_leave_the_schedule_and_free_what_they_hold():
    timer = Timer("x")
    schedule = []
    live = [timer.call_later(600, print) for _ in range(10)]
    for _ in range(1000):
        handle = timer.call_later(600, lambda: None)
        timer._step(schedule)
        handle.cancel()
        assert handle.function() is None
    while not timer._new.empty():
        timer._step(schedule)
    assert len(schedule) <= 64 + len(live)
    assert {entry[2] for entry in schedule} >= set(live)
    assert time.monotonic() < schedule[0][0]
