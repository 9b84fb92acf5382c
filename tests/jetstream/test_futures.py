"""Futures: of publish_async, of request_async and of the standard library, waited for together."""

from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

import jetsync
from tests.harness.leaks import library_threads
from tests.harness.signals import ctrl_c_when_waiting
from tests.harness.waiting import wait_until

ROOT = Path(__file__).parents[2]
WAITS = [jetsync.wait, concurrent.futures.wait]
COMPLETES = [jetsync.as_completed, concurrent.futures.as_completed]


class Published:
    """Makes futures of messages that a subscriber of the test confirms when told to."""

    error: type[jetsync.Error] = jetsync.PublishUnknownError

    def __init__(self, nc):
        self._js = nc.jetstream()
        self._asked = nc.subscribe(subject := nc.new_inbox())
        self._subject = subject
        self._seen = set()

    def new(self, timeout=30):
        return self.begin(timeout), self.question()

    def begin(self, timeout):
        return self._js.publish_async(self._subject, timeout=timeout)

    def question(self):
        """The next message that is none of those sent again."""
        while (msg := self._asked.next(10)).reply in self._seen:
            pass
        self._seen.add(msg.reply)
        return msg

    def answer(self, msg):
        msg.respond(b'{"stream":"S","seq":1}')

    def fail(self, msg):
        msg.respond(b'{"error":{"code":400,"description":"no","err_code":10071}}')


class Requested(Published):
    """The same for requests."""

    error = jetsync.TimeoutError

    def __init__(self, nc):
        super().__init__(nc)
        self._nc = nc

    def begin(self, timeout):
        return self._nc.request_async(self._subject, timeout=timeout)


class Standard:
    """The same for futures of the standard library."""

    def new(self):
        future = concurrent.futures.Future()
        return future, future

    def answer(self, future):
        future.set_result(None)


@pytest.fixture(params=["publish", "request", "standard"])
def maker(request, nc):
    if request.param == "standard":
        return Standard()
    return Published(nc) if request.param == "publish" else Requested(nc)


@pytest.fixture(params=["publish", "request"])
def ours(request, nc):
    return Published(nc) if request.param == "publish" else Requested(nc)


@pytest.mark.parametrize("wait", WAITS)
def test_waiting_for_the_first_one_returns_when_it_is_settled(maker, wait):
    (first, question), (second, other) = maker.new(), maker.new()
    threading.Timer(0.05, maker.answer, [question]).start()
    found = wait([first, second, first], 20, return_when="FIRST_COMPLETED")
    assert (found.done, found.not_done) == ({first}, {second})
    done, not_done = wait([first, second], return_when="FIRST_COMPLETED")
    assert (done, not_done) == ({first}, {second})
    maker.answer(other)
    assert wait([first, second], 20).done == {first, second}
    assert wait([], 0).done == set()


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_keeps_its_time_and_may_be_repeated(maker, wait):
    future, question = maker.new()
    for _ in range(3):
        assert wait([future], 0.02).not_done == {future}
    maker.answer(question)
    assert wait([future], 20).done == {future}


@pytest.mark.parametrize("wait", WAITS)
def test_the_first_failure_ends_a_wait_that_asks_for_it(nc, wait):
    publish = Published(nc)
    (good, question), (bad, other), (open_, _) = (publish.new() for _ in range(3))
    publish.answer(question)
    assert good.result(20).stream == "S"
    publish.fail(other)
    found = wait([good, bad, open_], 20, return_when="FIRST_EXCEPTION")
    assert (found.done, found.not_done) == ({good, bad}, {open_})


@pytest.mark.parametrize("as_completed", COMPLETES)
def test_futures_come_in_the_order_of_their_completion(maker, as_completed):
    made = [maker.new() for _ in range(10)]
    order = [made[n] for n in (7, 3, 9, 0, 6)]
    maker.answer(order[0][1])
    wait_until(order[0][0].done)
    coming = as_completed([future for future, _ in made], 20)
    seen = [next(coming)]
    for _, question in order[1:]:
        maker.answer(question)
        seen.append(next(coming))
    assert seen == [future for future, _ in order]


def test_settled_futures_come_first_and_in_the_given_order(maker):
    made = [maker.new() for _ in range(12)]
    for future, msg in reversed(made[:-1]):
        maker.answer(msg)
        future.result(20)
    futures = [future for future, _ in made]
    coming = jetsync.as_completed([futures[-1], *futures[:-1]], 20)
    assert [next(coming) for _ in range(11)] == futures[:-1]
    maker.answer(made[-1][1])
    assert list(coming) == futures[-1:]


@pytest.mark.parametrize("as_completed", COMPLETES)
def test_settled_futures_come_once_each_and_the_time_counts_from_the_call(maker, as_completed):
    made = [maker.new() for _ in range(3)]
    for _, question in made[:2]:
        maker.answer(question)
    futures = [future for future, _ in made]
    coming = as_completed([*futures, *futures], 0.3)
    assert {next(coming), next(coming)} == set(futures[:2])
    with pytest.raises((TimeoutError, concurrent.futures.TimeoutError)):
        next(coming)


def test_all_three_kinds_are_waited_for_together(nc):
    makers: list[Published | Standard] = [Published(nc), Requested(nc), Standard()]
    made = [(maker, *maker.new()) for maker in makers]
    coming = jetsync.as_completed([future for _, future, _ in made], 20)
    for maker, future, question in reversed(made):
        maker.answer(question)
        assert next(coming) is future
    found = jetsync.wait([future for _, future, _ in made])
    assert isinstance(found, jetsync.DoneAndNotDone)
    assert len(found.done) == 3
    assert found.not_done == set()
    assert pickle.loads(pickle.dumps(jetsync.DoneAndNotDone({1}, set()))).done == {1}


def test_what_is_no_future_is_refused(nc):
    for call in (jetsync.wait, jetsync.as_completed):
        with pytest.raises(jetsync.ConfigError, match="not int"):
            call([3])
    with pytest.raises(jetsync.ConfigError, match="return_when"):
        jetsync.wait([], return_when="SOON")
    with pytest.raises(jetsync.ConfigError):
        jetsync.wait([], -1)


def test_ten_thousand_messages_are_waited_for_by_one_waiter(js, stream):
    before = library_threads()
    futures = [js.publish_async(f"{stream.name}.a", b"%d" % n) for n in range(10_000)]
    assert len(list(jetsync.as_completed(futures, 60))) == 10_000
    assert jetsync.wait(futures, 60).not_done == set()
    assert {t.name.rsplit("-", 1)[0] for t in library_threads() - before} <= {"jetsync-publish"}


def test_many_threads_wait_for_the_same_futures(ours):
    made = [ours.new() for _ in range(20)]
    futures = [future for future, _ in made]
    found = []

    def look(n):
        kind = COMPLETES[n % 2]
        found.append(len(set(kind(futures, 30))) + len(WAITS[n % 2](futures, 30).done))

    threads = [threading.Thread(target=look, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for _, question in made:
        ours.answer(question)
    for thread in threads:
        thread.join(5)
    assert found == [40] * 8


def test_a_future_cannot_be_cancelled_and_says_whether_it_runs(ours):
    future, question = ours.new()
    assert (future.running(), future.done(), future.cancelled()) == (True, False, False)
    assert future.cancel() is False
    ours.answer(question)
    future.result(20)
    assert (future.running(), future.done(), future.cancelled()) == (False, True, False)
    assert future.cancel() is False


def test_a_future_of_the_standard_library_gets_the_outcome(ours):
    future, question = ours.new()
    standard = future.to_future()
    assert isinstance(standard, concurrent.futures.Future)
    assert standard.running()
    assert not standard.cancel()
    ours.answer(question)
    assert standard.result(20) == future.result()
    assert future.to_future().result(0) == future.result()
    late, _ = ours.new(timeout=0.1)
    assert isinstance(late.to_future().exception(20), ours.error)


def test_asyncio_awaits_a_wrapped_future(ours):
    async def main():
        future, question = ours.new()
        wrapped = asyncio.wrap_future(future.to_future())
        ours.answer(question)
        return future, await asyncio.wait_for(wrapped, 20)

    future, value = asyncio.run(main())
    assert value == future.result()


def test_dropped_futures_are_let_go_after_a_wait(nc):
    request = Requested(nc)
    future, question = request.new()
    jetsync.wait([future], 0.01)
    gone = weakref.ref(future)
    request.answer(question)
    jetsync.wait([future], 20)
    del future
    wait_until(lambda: gone() is None)


# -- requests --------------------------------------------------------------------------------------


def test_a_request_gives_the_reply_with_its_headers(nc):
    nc.subscribe("upper", callback=lambda m: m.respond(m.data.upper(), headers=dict(m.headers)))
    futures = [nc.request_async("upper", b"a%d" % n, headers={"N": str(n)}) for n in range(100)]
    replies = [future.result(20) for future in futures]
    assert [r.data for r in replies] == [b"A%d" % n for n in range(100)]
    assert [r.headers["N"] for r in replies] == [str(n) for n in range(100)]
    assert futures[0].exception() is None
    assert "upper" in repr(futures[0])


def test_an_unheard_request_ends_at_once(nc):
    future = nc.request_async("unheard", timeout=60)
    assert isinstance(future.exception(20), jetsync.NoRespondersError)
    with pytest.raises(jetsync.NoRespondersError):
        future.result()


def test_a_request_that_stays_unanswered_ends_by_its_own_time(nc):
    future, question = Requested(nc).new(timeout=0.1)
    with pytest.raises(jetsync.TimeoutError, match=r"within 0\.1 s"):
        future.result(20)
    question.respond(b"late")
    nc.flush()
    assert isinstance(future.exception(), jetsync.TimeoutError)


def test_waiting_for_a_reply_keeps_its_own_time(nc):
    future, question = Requested(nc).new()
    with pytest.raises(jetsync.TimeoutError, match="may still come"):
        future.result(0.05)
    question.respond(b"now")
    assert future.result(20).data == b"now"


@pytest.mark.parametrize("call", [("bad subject", b""), ("s", "text")], ids=str)
def test_a_bad_request_raises_at_once_and_leaves_nothing(nc, call):
    with pytest.raises(jetsync.ConfigError):
        nc.request_async(*call)
    with pytest.raises(jetsync.MaxPayloadError):
        nc.request_async("s", b"x" * (2 << 20))
    nc.drain(5)  # would wait for one that is under way


def test_who_answers_one_request_cannot_answer_another_one(nc):
    """Keys are not numbers: one more or less is no other request."""
    request = Requested(nc)
    (first, question), (second, other) = request.new(), request.new()
    token = question.reply.partition("-")[0]
    assert other.reply.startswith(token)
    for forged in (token, f"{token}-", f"{token}-1", question.reply + "x"):
        nc.publish(forged, b"forged")
    question.respond(b"true")
    question.respond(b"twice")
    other.respond(b"other")
    assert (first.result(20).data, second.result(20).data) == (b"true", b"other")


def test_callbacks_of_requests_run_once_may_ask_and_harm_nothing(url):
    seen, errors = [], []
    with jetsync.connect(url, on_error=lambda event: errors.append(event.error)) as nc:
        nc.subscribe("echo", callback=lambda m: m.respond(m.data))
        future, question = Requested(nc).new()
        future.add_done_callback(lambda f: 1 / 0)
        future.add_done_callback(lambda f: seen.append(nc.request_async("echo", b"2").result(20)))
        question.respond(b"1")
        wait_until(lambda: seen)
        future.add_done_callback(lambda f: seen.append(f.result()))
        wait_until(lambda: errors)
    assert [m.data for m in seen] == [b"2", b"1"]
    assert isinstance(errors[0], ZeroDivisionError)


def test_draining_waits_for_replies_and_closing_settles_futures(url):
    with jetsync.connect(url) as listener:
        asked = listener.subscribe("slow.answer")
        listener.flush()
        nc = jetsync.connect(url)
        future = nc.request_async("slow.answer", timeout=20)
        question = asked.next(10)
        threading.Timer(0.1, lambda: (question.respond(b"there"), listener.flush())).start()
        nc.drain(20)
        assert future.result(0).data == b"there"
        nc = jetsync.connect(url)
        futures = [nc.request_async("slow.answer", timeout=20) for _ in range(3)]
        threading.Timer(0.1, nc.close).start()
        assert len(jetsync.wait(futures, 10).done) == 3
        assert isinstance(futures[0].exception(), jetsync.ConnectionClosedError)
        with pytest.raises(jetsync.ConnectionClosedError):
            nc.request_async("slow.answer")


def test_a_lost_link_ends_requests_and_the_next_ones_work(nc):
    future, _ = Requested(nc).new()
    nc.force_reconnect()
    assert isinstance(future.exception(20), jetsync.DisconnectedError)
    wait_until(lambda: nc.is_connected)
    nc.subscribe("echo", callback=lambda m: m.respond(m.data))
    assert nc.request_async("echo", b"x").result(20).data == b"x"


def test_the_thread_for_replies_ends_when_nothing_is_under_way(nc):
    nc.subscribe("echo", callback=lambda m: m.respond(m.data))
    for _ in range(2):
        assert nc.request_async("echo", b"x").result(20).data == b"x"
        wait_until(lambda: not [t for t in library_threads() if "-replies-" in t.name])


# -- signals and processes -------------------------------------------------------------------------


def test_ctrl_c_interrupts_a_wait_and_a_handler_may_wait_for_a_future(ours):
    future, question = ours.new()
    inner = []

    def handler(*_):
        other, asked = ours.new()
        ours.answer(asked)
        inner.append(other.result(20))
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handler)
    try:
        for call in (
            lambda: jetsync.wait([future]),
            lambda: next(jetsync.as_completed([future])),
            lambda: _inside(future),
            future.result,
        ):
            with pytest.raises(KeyboardInterrupt), ctrl_c_when_waiting():
                call()
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(inner) == 4
    ours.answer(question)
    assert jetsync.wait([future], 20).done == {future}


def _inside(future):
    """Be where concurrent.futures looks at futures, which its signal may meet."""
    with future._condition:
        assert future._state == "PENDING"
        time.sleep(20)  # until its signal


FORKED = """
import os, sys, jetsync
nc = jetsync.connect(sys.argv[1])
listener = nc.subscribe("silent")
js = nc.jetstream()
futures = [nc.request_async("silent", timeout=20), js.publish_async("silent", timeout=20)]
nc.flush()
closed = jetsync.connect(sys.argv[1])
done = [
    nc.request_async("unheard"), js.publish_async("unheard", timeout=0.2),
    closed.request_async("unheard"), closed.jetstream().publish_async("unheard", timeout=0.2),
]
jetsync.wait(done)
closed.close()
child = os.fork()
if child == 0:
    refused = 0
    for future in futures + done:
        calls = [future.done, future.running, future.cancel, future.cancelled, future.result,
                 future.exception, future.to_future, lambda: future.add_done_callback(print),
                 lambda: jetsync.wait([future]), lambda: list(jetsync.as_completed([future]))]
        for call in calls:
            try:
                call()
            except jetsync.ForkedError:
                refused += 1
    os._exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
nc.close()
"""


def test_a_forked_child_is_refused_by_every_method(url):
    """Six futures, ten calls of each: two wait, and four were settled before the fork, two of them
    on a connection that was closed since."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED, url], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.stdout.strip() == "60", done.stderr


TYPED = """
import asyncio, concurrent.futures
import jetsync

def check(nc: jetsync.Connection, js: jetsync.JetStream) -> None:
    stored = js.publish_async("s")
    reveal_type(stored.to_future())
    reveal_type(nc.request_async("s").to_future())
    reveal_type(jetsync.wait([stored]).done)
    for future in jetsync.as_completed([stored]):
        reveal_type(future.result())
"""


def test_a_type_checker_infers_what_futures_give(tmp_path):
    from mypy import api

    program = tmp_path / "typed.py"
    program.write_text(TYPED)
    cache = ROOT / ".mypy_cache"  # else it reads all of jetsync again
    out, err, code = api.run(["--strict", f"--cache-dir={cache}", str(program)])
    assert code == 0, out + err
    shown = [
        line.split('"')[1].removeprefix("builtins.")
        for line in out.splitlines()
        if "Revealed" in line
    ]
    assert shown == [
        "concurrent.futures._base.Future[jetsync.jetstream.publish.puback.PubAck]",
        "concurrent.futures._base.Future[jetsync._core.message.Msg]",
        "set[jetsync._core.futures.PubAckFuture]",
        "jetsync.jetstream.publish.puback.PubAck",
    ]
