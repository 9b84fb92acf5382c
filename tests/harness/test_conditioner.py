"""The link conditioner shapes real connections as it says, so that tests of links can trust it."""

from __future__ import annotations

import resource
import socket
import threading
import time

import pytest

import jetsync
from tests.harness.conditioner import Link, LinkProcess
from tests.harness.test_proxy import Echo, read
from tests.harness.waiting import wait_until


@pytest.fixture
def echo():
    one = Echo()
    yield one
    one.close()


def dial(link):
    return socket.create_connection(("127.0.0.1", link.port), 10)


def seconds(call):
    start = time.monotonic()
    call()
    return time.monotonic() - start


def test_an_unshaped_link_carries_everything_and_counts_it(echo):
    data = bytes(range(256)) * 20_000
    with Link(echo.url) as link, dial(link) as one:
        sender = threading.Thread(target=one.sendall, args=(data,))
        sender.start()
        assert read(one, len(data)) == data
        sender.join()
        state = link.state()
        assert state["to_client"] == state["to_server"] == len(data)
        assert (state["connections"], state["accepted"]) == (1, 1)


def test_a_round_trip_takes_the_time_asked_for(echo):
    with Link(echo.url, rtt=0.1) as link, dial(link) as one:
        one.sendall(b"x")
        assert seconds(lambda: read(one, 1)) >= 0.099


def test_many_messages_are_under_way_at_once(echo):
    """Fifty messages on a line of 0.2 s arrive after one round trip, not after fifty."""
    with Link(echo.url, rtt=0.2) as link, dial(link) as one:
        start = time.monotonic()
        for _ in range(50):
            one.sendall(b"y" * 100)
            time.sleep(0.002)  # the pace of the sender
        read(one, 5000)
        assert 0.2 <= time.monotonic() - start < 5.0


def test_directions_are_shaped_apart(echo):
    with Link(echo.url) as link, dial(link) as one:
        link.set(way="to_client", latency=0.15)
        one.sendall(b"x")
        assert seconds(lambda: read(one, 1)) >= 0.149
        link.set(way="to_client", latency=0.0)
        link.set(way="to_server", latency=0.15)
        one.sendall(b"x")
        assert seconds(lambda: read(one, 1)) >= 0.149


def test_bandwidth_limits_the_bytes_of_all_connections_together(echo):
    with Link(echo.url) as link, dial(link) as one, dial(link) as other:
        link.set(way="to_client", bandwidth=1_000_000)
        start = time.monotonic()
        for each in (one, other):
            each.sendall(b"z" * 150_000)
        for each in (one, other):
            read(each, 150_000)
        assert time.monotonic() - start >= 0.29


def test_bandwidth_and_latency_add_up_once(echo):
    """0.1 s there, 0.1 s back, and the time the line needs for 100,000 bytes."""
    with Link(echo.url, rtt=0.2, bandwidth=1_000_000) as link, dial(link) as one:
        start = time.monotonic()
        one.sendall(b"z" * 100_000)
        assert read(one, 100_000) == b"z" * 100_000
        assert time.monotonic() - start >= 0.3


def test_jitter_keeps_the_order(echo):
    data = bytes(i % 251 for i in range(3000))
    with Link(echo.url, rtt=0.01, jitter=0.03) as link, dial(link) as one:
        for at in range(0, len(data), 100):
            one.sendall(data[at : at + 100])
        assert read(one, len(data)) == data


def test_a_stall_of_one_direction_holds_that_one_only(echo):
    with Link(echo.url) as link, dial(link) as one:
        link.stall(way="to_client")
        one.sendall(b"held")
        wait_until(lambda: link.state()["to_server"] == 4)
        one.settimeout(0.1)
        with pytest.raises(TimeoutError):
            one.recv(1)
        one.settimeout(10)
        link.resume()
        assert read(one, 4) == b"held"


def test_a_stalled_link_fills_up_and_empties_again(echo):
    data = b"x" * 16 * 2**20
    with Link(echo.url) as link, dial(link) as one:
        link.stall()
        sent = []
        sender = threading.Thread(target=lambda: sent.append(one.sendall(data)))
        sender.start()
        sender.join(0.2)
        assert sender.is_alive()
        assert link.state()["to_server"] == 0
        link.resume()
        assert read(one, len(data)) == data
        sender.join(10)
        assert sent == [None]


def test_a_pause_ends_by_itself(echo):
    with Link(echo.url) as link, dial(link) as one:
        link.pause(0.3)
        one.sendall(b"x")
        assert seconds(lambda: read(one, 1)) >= 0.25


def test_cut_resets_and_refuse_turns_away(echo):
    with Link(echo.url) as link, dial(link) as one:
        one.sendall(b"x")
        read(one, 1)
        link.cut()
        with pytest.raises(ConnectionResetError):
            one.recv(1)
        wait_until(lambda: echo.ends == ["ConnectionResetError"])
        link.refuse()
        with pytest.raises(ConnectionResetError), dial(link) as again:
            again.recv(1)
        link.refuse(False)
        with dial(link) as again:
            again.sendall(b"y")
            assert read(again, 1) == b"y"


def test_ends_pass_in_their_turn(echo):
    with Link(echo.url, rtt=0.1) as link, dial(link) as one:
        one.sendall(b"last")
        one.shutdown(socket.SHUT_WR)
        assert read(one, 100) == b"last"
        wait_until(lambda: (echo.ends, link.state()["connections"]) == (["end"], 0))


def test_a_target_that_is_away_is_a_reset():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with Link(f"127.0.0.1:{port}") as link:
        with pytest.raises(ConnectionResetError), dial(link) as one:
            one.recv(1)
        assert link.state()["connections"] == 0


def test_links_share_a_process_and_keep_apart(echo):
    with LinkProcess() as process:
        first, second = Link(echo.url, process=process), Link(echo.url, process=process)
        first.stall()
        with dial(second) as one:
            one.sendall(b"x")
            assert read(one, 1) == b"x"
        second.close()
        first.resume()
        with dial(first) as one:
            one.sendall(b"x")
            assert read(one, 1) == b"x"


def test_an_idle_or_stalled_link_costs_no_processor_time(echo):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with Link(echo.url, rtt=0.1) as link, dial(link) as one:
        link.stall()
        one.sendall(b"x")
        one.close()
        time.sleep(0.5)  # the stall itself
        link.state()
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 0.4


def test_a_client_sees_the_round_trip_of_the_link(server):
    with Link(server.url, rtt=0.06) as link, jetsync.connect(link.url) as nc:
        assert nc.rtt() >= 0.059
        link.set(rtt=0)
        wait_until(lambda: nc.rtt() < 0.059)
