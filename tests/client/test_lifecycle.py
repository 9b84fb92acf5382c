"""Staying connected and ending: reconnect, replay, drain, close, fork, exit, Ctrl-C."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial

import pytest

import jetsync
from jetsync._threads import ThreadPool, library_threads
from jetsync.client.port import port_of
from jetsync.server import NatsServer
from tests.harness.insides import label_of
from tests.harness.waiting import wait_until

LONG = 20.0


@pytest.fixture
def server():
    with NatsServer(jetstream=False) as one:
        yield one


def run(code: str, *args: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_subscriptions_and_buffered_publishes_survive_a_restart(server):
    events = []
    with jetsync.connect(
        server.url,
        on_disconnected=lambda event: events.append(event.kind),
        on_reconnected=lambda event: events.append(event.kind),
    ) as nc:
        sub = nc.subscribe("a.*")
        limited = nc.subscribe("a.*")
        limited.unsubscribe(max_messages=3)
        nc.publish("a.1", b"before")
        nc.flush()
        server.kill()
        wait_until(lambda: not nc.is_connected, timeout=5)
        nc.publish("a.2", b"while away")
        server.start()
        wait_until(lambda: nc.is_connected, timeout=10)
        for n in range(3):
            nc.publish("a.3", b"%d" % n)
        assert [sub.next(timeout=5).data for _ in range(5)] == [
            b"before",
            b"while away",
            b"0",
            b"1",
            b"2",
        ]
        assert [msg.data for msg in limited] == [b"before", b"while away", b"0"]
        assert nc.stats.reconnects == 1
        wait_until(lambda: events == ["disconnected", "reconnected"], timeout=5)


def test_the_reconnect_buffer_is_bounded_and_says_so(server):
    with jetsync.connect(server.url, reconnect_buffer_size=1000) as nc:
        server.kill()
        wait_until(lambda: not nc.is_connected, timeout=5)
        with pytest.raises(jetsync.OutboundFullError, match="reconnect"):
            # The buffer is bounded from the moment at which the link is given up, a little later.
            end = time.monotonic() + 5
            while time.monotonic() < end:
                nc.publish("x", b"y" * 100)
        nc.close()


def test_a_question_that_waits_for_a_link_is_not_asked_when_its_answer_can_no_longer_come(server):
    with jetsync.connect(server.url, reconnect_buffer_size=1000) as nc:
        nc.flush(timeout=20)
        server.kill()
        wait_until(lambda: not nc.is_connected, timeout=20)
        with pytest.raises(jetsync.OutboundFullError):
            while True:
                nc.publish("x", b"y" * 10)
        with ThreadPool("asker") as pool:
            asked = pool.submit(partial(nc.request, "a", timeout=60))
            wait_until(nc._inbound.pending_replies, timeout=20)
            nc._requests.fail_all("the link of its inbox is gone")
            with pytest.raises(jetsync.DisconnectedError, match="of its inbox"):
                asked.result(20)
        nc.close()


def test_without_reconnect_the_connection_ends_and_waiters_are_told(server):
    with jetsync.connect(server.url, reconnect=False) as nc:
        sub = nc.subscribe("a")
        server.kill()
        with pytest.raises(jetsync.ConnectionClosedError):
            sub.next(timeout=10)
        wait_until(lambda: nc.is_closed, timeout=5)


def test_reconnects_are_given_up_after_their_number(server):
    nc = jetsync.connect(server.url, max_reconnects=2, reconnect_wait=0.01)
    sub = nc.subscribe("a")
    server.kill()
    with pytest.raises(jetsync.ConnectionClosedError):
        sub.next(timeout=10)
    wait_until(lambda: nc.is_closed, timeout=5)


@pytest.mark.straight
def test_moves_to_another_server():
    with (
        NatsServer(jetstream=False) as one,
        NatsServer(jetstream=False) as two,
        jetsync.connect([one.url, two.url], randomize_servers=False) as nc,
    ):
        assert str(nc.connected_url).endswith(str(one.port))
        one.kill()
        wait_until(
            lambda: nc.is_connected and str(nc.connected_url).endswith(str(two.port)), timeout=10
        )


def test_drain_delivers_everything_and_then_closes(server):
    seen = []
    with jetsync.connect(server.url) as other, jetsync.connect(server.url) as nc:
        nc.subscribe("a", callback=lambda msg: seen.append(msg.data))
        nc.flush()
        for n in range(1000):
            other.publish("a", b"%d" % n)
        other.flush()
        nc.drain(timeout=10)
        assert len(seen) == 1000
        assert nc.is_closed
        with pytest.raises(jetsync.ConnectionClosedError):
            nc.publish("a")


def test_drain_waits_for_the_server_to_come_back(server):
    with jetsync.connect(server.url) as nc:
        server.kill()
        wait_until(lambda: not nc.is_connected, timeout=5)
        threading.Timer(0.3, server.start).start()
        nc.drain(timeout=10)
        assert nc.is_closed
        wait_until(lambda: server.is_running, timeout=5)


def test_drain_waits_for_the_next_link_when_one_ends_just_before_it_asks(server, monkeypatch):
    with jetsync.connect(server.url) as nc:
        ping, asked = nc._session.ping, []

        def late(pong, **options):
            asked.append(pong)
            if len(asked) == 2:  # the first one asks what the server still has for the callbacks
                server.kill()
                wait_until(lambda: not nc.is_connected, timeout=5)
                threading.Timer(0.3, server.start).start()
            return ping(pong, **options)

        monkeypatch.setattr(nc._session, "ping", late)
        nc.drain(timeout=10)
        assert nc.is_closed
        assert len(asked) > 2
        wait_until(lambda: server.is_running, timeout=5)


@pytest.mark.timed
def test_drain_without_a_server_keeps_its_time(server, in_time):
    with jetsync.connect(server.url) as nc:
        server.kill()
        wait_until(lambda: not nc.is_connected, timeout=5)
        with in_time(0.3), pytest.raises(jetsync.TimeoutError):
            nc.drain(timeout=0.3)
        assert nc.is_closed


def test_what_was_published_before_close_arrives(server):
    with jetsync.connect(server.url) as other:
        sub = other.subscribe("a")
        other.flush()
        nc = jetsync.connect(server.url)
        for _ in range(1000):
            nc.publish("a")
        nc.close()
        for _ in range(1000):
            sub.next(timeout=5)


@pytest.mark.timed
def test_what_the_last_pong_lets_the_connection_do_is_done_before_it_closes(server):
    """What came late to a pull that had ended goes back to the server so."""
    heard = []
    with jetsync.connect(server.url) as other:
        other.subscribe("late", callback=lambda msg: heard.append(msg.data))
        other.flush()
        nc = jetsync.connect(server.url)

        def give_back():
            time.sleep(0.05)  # the timer is slower than the thread that closes
            nc.publish("late", b"given back")

        port_of(nc).after_pong(give_back)
        nc.flush()
        nc.close()
        wait_until(lambda: heard == [b"given back"])


@pytest.mark.timed
@pytest.mark.parametrize("first", ["another thread", "a callback"])
def test_every_close_returns_when_the_threads_have_ended(server, first):
    """Also one that finds another thread closing, whose threads have not all ended yet."""
    inside, go = threading.Event(), threading.Event()

    def callback(_msg):
        if first == "a callback":
            nc.close()
        inside.set()
        assert go.wait(LONG)

    nc = jetsync.connect(server.url)
    nc.subscribe("kept", callback=callback)
    nc.publish("kept")
    assert inside.wait(LONG)
    closing = threading.Thread(target=nc.close)
    if first == "another thread":
        closing.start()
        wait_until(lambda: nc.is_closed, timeout=LONG)
    letting_go = threading.Timer(0.1, go.set)
    letting_go.start()
    nc.close()
    left = [one.name for one in library_threads() if label_of(nc) in one.name.split("-")]
    assert left == []
    letting_go.join()
    if first == "another thread":
        closing.join()


def test_close_wakes_every_waiter(server):
    nc = jetsync.connect(server.url)
    sub = nc.subscribe("a")
    held = nc.subscribe("held")
    results = []

    def wait(call):
        try:
            call()
        except Exception as error:
            results.append(type(error))

    threads = [
        threading.Thread(target=wait, args=(call,))
        for call in (
            lambda: sub.next(timeout=30),
            lambda: nc.request("held", timeout=30),
        )
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: nc.stats.out_messages >= 1, timeout=5)
    nc.close()
    for thread in threads:
        thread.join(2)
        assert not thread.is_alive()
    assert results == [jetsync.ConnectionClosedError] * 2
    assert not held.is_active


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(server):
    with jetsync.connect(server.url) as nc:
        sub = nc.subscribe("a")
        nc.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                nc.publish("a", b"from the child")
            except jetsync.ForkedError:
                try:
                    sub.next(timeout=1)
                except jetsync.ForkedError:
                    with jetsync.shared_connection(server.url) as mine:
                        mine.publish("a", b"own connection")
                    code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        nc.publish("a", b"parent")
        assert {sub.next(timeout=5).data, sub.next(timeout=5).data} == {
            b"own connection",
            b"parent",
        }


def test_an_iterator_made_before_a_fork_ends_in_the_child(server):
    """Also with another thread inside of the very same wait at the moment of the fork."""
    with jetsync.connect(server.url) as nc:
        sub = nc.subscribe("a")
        messages = iter(sub)
        waiting = threading.Thread(target=lambda: sub.next(timeout=20))
        waiting.start()
        nc.publish("a", b"1")
        waiting.join()
        waiting = threading.Thread(target=lambda: sub.next(timeout=20))
        waiting.start()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                next(messages)
            except jetsync.ForkedError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        nc.publish("a", b"2")
        waiting.join()


def test_a_shared_connection_does_not_wait_for_one_to_a_server_that_says_nothing(server):
    refused = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"nats://127.0.0.1:{silent.getsockname()[1]}"

        def connect():
            try:
                jetsync.shared_connection(url, connect_timeout=1.5)
            except jetsync.NoServersError as error:
                refused.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        peer, _ = silent.accept()
        with peer:
            jetsync.shared_connection(server.url, name="healthy").close()
            assert thread.is_alive()
            thread.join(20)
    assert len(refused) == 1


def test_a_shared_connection_is_one_per_process_and_options(server):
    one = jetsync.shared_connection(server.url)
    assert jetsync.shared_connection(server.url) is one
    assert jetsync.shared_connection(server.url, name="x") is not one
    assert jetsync.shared_connection(servers=server.url) is one
    jetsync.shared_connection(server.url, name="x").close()
    one.close()
    assert jetsync.shared_connection(server.url) is not one
    jetsync.shared_connection(server.url).close()


def test_leaving_without_close_is_silent_and_sends_what_was_published(server):
    with jetsync.connect(server.url) as nc:
        sub = nc.subscribe("bye")
        nc.flush()
        done = run(
            """
            import sys, jetsync
            nc = jetsync.connect(sys.argv[1])
            nc.subscribe("a", callback=print)
            nc.publish("bye", b"x")
            sys.exit(7)
            """,
            server.url,
        )
        assert (done.returncode, done.stderr) == (7, "")
        assert sub.next(timeout=5).data == b"x"
