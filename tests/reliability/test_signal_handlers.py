"""Signal handlers may use the connection, and may raise: nothing hangs and nothing is left."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jetsync
from jetsync.server import NatsServer
from tests.harness.fakeserver import ClientGone, FakeServer
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.harness.watchdog import run_module

PATIENCE = scaled(200, 3_000)


def test_a_handler_that_uses_the_connection_never_waits_for_what_it_interrupted(server):
    count = scaled(300, 10_000)
    done = run_module("tests.reliability.signal_handlers", server.url, str(count), limit=PATIENCE)
    assert (done.code, done.errors) == (0, ""), done
    assert int(done.output) >= count


def test_interrupted_calls_leave_no_subscription_and_no_reply_token_behind():
    with NatsServer() as server:
        done = run_module(
            "tests.reliability.left_behind", server.url, str(scaled(300, 10_000)), limit=PATIENCE
        )
    assert (done.code, done.output, done.errors) == (0, "", ""), done


def test_closing_ends_while_the_server_says_over_and_over_that_it_shuts_down():
    """Two threads of the connection deal with each announcement, and the one that closes."""

    def script(peer):
        try:
            peer.handshake()
        except ClientGone:  # it was closed while it dialled again
            return
        stop = threading.Event()

        def talk():
            while not stop.wait(0.0005):
                try:
                    peer.send_info(ldm=True, connect_urls=["127.0.0.1:1", "127.0.0.1:2"])
                except OSError:
                    return

        talker = threading.Thread(target=talk)
        talker.start()
        try:
            peer.wait_for_end()
        finally:
            stop.set()
            talker.join()

    def close_many(count: int) -> None:
        with FakeServer(script) as fake:
            for _ in range(count):
                nc = jetsync.connect(fake.url, reconnect_wait=0.2, connect_timeout=30)
                time.sleep(0.01)  # the moment varies with the machine
                closer = threading.Thread(target=nc.close)
                closer.start()
                closer.join(10)
                assert not closer.is_alive()
                assert nc.is_closed

    # Most of a close is waiting, so several go on at once.
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(close_many, [scaled(2, 250)] * 4))


def test_a_server_that_repeats_its_shutdown_is_left_once_and_reported_once():
    def script(peer):
        peer.handshake()
        for _ in range(1000):
            peer.send_info(ldm=True, connect_urls=["127.0.0.1:1", "127.0.0.1:2"])
        peer.serve()

    def last(peer):
        peer.handshake()
        peer.serve()

    told: list[str] = []
    with FakeServer(script, last) as fake:
        with jetsync.connect(fake.url, on_lame_duck=lambda event: told.append(event.kind)) as nc:
            nc.flush(timeout=10)
            wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected)
        assert told.count("lame_duck") == 1
