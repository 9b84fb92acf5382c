"""The first answer to a backup may take longer than other answers."""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync.client.port import port_of
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until


@pytest.mark.parametrize("check", [False, True])
def test_a_backup_waits_longer_for_its_beginning_than_for_other_answers(tmp_path, check):
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        stream = nc.jetstream(timeout=0.2).create_stream(name="S", subjects=["s"])
        nc.jetstream().publish("s", b"x")
        server.pause()
        resume = threading.Timer(0.6, server.resume)
        resume.start()
        try:
            info = stream.backup(tmp_path / "copy", check=check)
        finally:
            resume.join()
        assert info.state.messages == 1


def test_a_backup_without_a_link_fails_at_once_and_asks_for_nothing(tmp_path):
    """The server would send the pieces to an inbox that has ended."""
    with (
        NatsServer() as server,
        Proxy(server.url) as proxy,
        jetsync.connect(proxy.url) as nc,
    ):
        stream = nc.jetstream().create_stream(name="S", subjects=["s"])
        proxy.stop()
        wait_until(lambda: not nc.is_connected, timeout=30)
        with pytest.raises(jetsync.DisconnectedError):
            stream.backup(tmp_path / "copy")
        assert port_of(nc).outbound.pending_bytes == 0
        assert list((tmp_path / "copy").iterdir()) == []
        nc.close()
