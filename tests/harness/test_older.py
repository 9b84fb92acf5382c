"""The older servers are what they are called, and jetsync publishes and fetches on each."""

from __future__ import annotations

import pytest

import jetsync
from tests.harness.older import OLDER_VERSIONS, older_server


@pytest.mark.parametrize("version", OLDER_VERSIONS)
def test_an_older_server_says_its_version_and_keeps_messages(version):
    with older_server(version) as server, jetsync.connect(server.url) as nc:
        assert nc.server_info is not None
        assert nc.server_info.version == version
        js = nc.jetstream()
        stream = js.create_stream(name="OLD", subjects=["old.>"])
        js.publish("old.1", b"one")
        consumer = stream.create_consumer(durable_name="c")
        assert [bytes(m.data) for m in consumer.fetch(1, timeout=5)] == [b"one"]
