"""A server starts, stops, dies, freezes and comes back as its docstrings say."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable

import pytest

from jetsync.errors import ConfigError, ServerUnavailableError
from jetsync.server import NatsServer
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until
from tests.server.processes import children, is_alive, scratch_of

GOODBYE = {"lame_duck_duration": "30s", "lame_duck_grace_period": "100ms"}


def store_three(url):
    with RawClient(url) as raw:
        raw.handshake()
        raw.api("STREAM.CREATE.KEEP", name="KEEP", subjects=["keep"])
        for _ in range(3):
            raw.request("keep", b"x")


def stored(url):
    with RawClient(url) as raw:
        raw.handshake()
        return raw.api("STREAM.INFO.KEEP")["state"]["messages"]


def stream_names(url):
    with RawClient(url) as raw:
        raw.handshake()
        return raw.api("STREAM.NAMES")["streams"]


def test_after_start_it_takes_clients_and_has_jetstream():
    with NatsServer(name="one") as server:
        with RawClient(server.url) as raw:
            info = raw.handshake()
            assert raw.api("INFO")["streams"] == 0
        assert (info["server_name"], info["port"]) == ("one", server.port)
        assert info["host"] == "127.0.0.1"
        assert server.is_running
        assert is_alive(server.pid)
        assert server.monitor("varz")["server_name"] == "one"
        assert "Server is ready" in server.log


def test_without_jetstream_it_offers_none():
    with NatsServer(jetstream=False) as server, RawClient(server.url) as raw:
        assert not raw.handshake().get("jetstream")


def test_stop_leaves_no_process_and_no_file_and_may_be_repeated():
    before = children()
    server = NatsServer().start()
    pid, folder = server.pid, scratch_of(server)
    assert folder.exists()
    server.stop()
    server.stop()
    assert children() == before
    assert not is_alive(pid)
    assert not folder.exists()
    assert (server.is_running, server.pid, server.store_dir) == (False, None, None)
    assert "Server Exiting" in server.log


def test_starting_a_running_server_changes_nothing():
    with NatsServer() as server:
        pid = server.pid
        assert server.start() is server
        assert server.pid == pid


def test_the_port_stays_the_same_over_every_start():
    with NatsServer(jetstream=False) as server:
        url = server.url
        server.stop()
        assert server.url == url
        server.start()
        assert server.url == url
        server.kill()
        server.start()
        server.restart()
        with RawClient(url) as raw:
            assert raw.handshake()["port"] == server.port


def test_before_the_first_start_there_is_no_url():
    with pytest.raises(ServerUnavailableError, match="start"):
        _ = NatsServer().url
    assert NatsServer(port=4333).url == "nats://127.0.0.1:4333"


def test_streams_survive_restart_and_kill_but_a_temporary_store_not_stop():
    with NatsServer() as server:
        store_three(server.url)
        server.restart()
        assert stored(server.url) == 3
        server.kill()
        assert not server.is_running
        server.kill()
        server.start()
        assert stored(server.url) == 3
        server.stop()
        server.start()
        assert stream_names(server.url) is None


def test_a_given_store_stays_after_stop(tmp_path):
    with NatsServer(store_dir=tmp_path / "new" / "store") as server:
        assert server.store_dir == tmp_path / "new" / "store"
        store_three(server.url)
    with NatsServer(store_dir=tmp_path / "new" / "store") as server:
        assert stored(server.url) == 3


def test_a_paused_server_keeps_its_connections_and_answers_after_resume():
    with NatsServer() as server, RawClient(server.url) as raw:
        raw.handshake()
        server.pause()
        server.pause()
        assert server.is_running
        raw.send(b"PING\r\n")
        raw.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            raw.read_until(b"PONG\r\n")
        raw.socket.settimeout(5)
        server.resume()
        raw.read_until(b"PONG\r\n")
        server.resume()


def test_a_paused_server_can_be_stopped_killed_and_restarted():
    before = children()
    with NatsServer() as server:
        for end in (server.kill, server.stop, server.restart):
            server.start()
            server.pause()
            end()
    assert children() == before
    assert "Server Exiting" in server.log


def test_reload_applies_a_new_configuration():
    with NatsServer(config={"max_payload": 1000}) as server:
        for config, expected in (({"max_payload": 2000}, 2000), ("max_payload: 3000", 3000)):
            server.reload(config)
            with RawClient(server.url) as raw:
                assert raw.handshake()["max_payload"] == expected
        server.reload()
        server.restart()
        with RawClient(server.url) as raw:
            assert raw.handshake()["max_payload"] == 3000


def test_a_refused_reload_says_why_and_keeps_the_earlier_configuration():
    with NatsServer(config={"max_payload": 1000}) as server:
        with pytest.raises(ConfigError, match=r"server\.conf:2:\d+: unknown field"):
            server.reload("max_payload: 2000\nfoo: 1")
        server.restart()
        with RawClient(server.url) as raw:
            assert raw.handshake()["max_payload"] == 1000


def test_lame_duck_tells_clients_and_ends():
    with NatsServer(config=GOODBYE) as server, RawClient(server.url) as raw:
        raw.handshake()
        server.lame_duck()
        infos = [line for line in raw.read_to_end().split(b"\r\n") if line.startswith(b"INFO")]
        assert json.loads(infos[-1][5:])["ldm"] is True
        assert server.wait(10)
        assert not server.is_running
        server.start()
        assert not server.wait(0)


@pytest.mark.parametrize(
    "act",
    [
        lambda server: server.pause(),
        lambda server: server.reload(),
        lambda server: server.lame_duck(),
        lambda server: server.monitor("varz"),
    ],
)
def test_a_server_that_does_not_run_says_so(act):
    with pytest.raises(ServerUnavailableError, match="start"):
        act(NatsServer())


def test_what_does_nothing_without_a_process_is_allowed():
    server = NatsServer()
    server.stop()
    server.kill()
    server.resume()
    assert server.wait(0)
    assert server.log == ""


def test_a_server_outlives_the_thread_that_started_it():
    server = NatsServer()
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join(30)
    with server, RawClient(server.url) as raw:
        raw.handshake()


def test_threads_may_start_kill_and_stop_it_at_once():
    before = children()
    server = NatsServer(jetstream=False)
    acts: list[Callable[[], object]] = [server.start, server.kill, server.restart, server.stop] * 3
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    server.stop()
    assert children() == before


def test_a_forgotten_server_is_stopped():
    server = NatsServer().start()
    pid, folder = server.pid, scratch_of(server)
    del server
    gc.collect()
    wait_until(lambda: not is_alive(pid))
    assert not folder.exists()
