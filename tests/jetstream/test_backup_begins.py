"""The first answer to a backup may take longer than other answers."""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync.server import NatsServer


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
