"""protocol section 4: both forms of the acknowledgement subject (ADR-15), on real servers.

The second form comes only from servers with ``feature_flags { js_ack_fc_v2: true }`` (2.14). The
tests of acknowledgements run against such servers too; in the long form the whole consuming suite.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.ack_v2 import FLAG
from tests.harness.soak import scaled

ROOT = Path(__file__).parents[2]
SUITE = scaled(
    ["test_acks.py"],
    [
        "test_acks.py",
        "test_consume.py",
        "test_diagnosis.py",
        "test_ordered.py",
        "test_ordered_life.py",
    ],
)
LANE = scaled(["-m", "not timed"], [])


@pytest.mark.parametrize("domain", [None, "hub"])
def test_every_field_is_read_and_every_acknowledgement_works(domain):
    """Eleven tokens; ``_`` for no domain."""
    config = {"feature_flags": FLAG}
    if domain is not None:
        config["jetstream"] = {"domain": domain}
    with NatsServer(config=config) as server, jetsync.connect(server.url) as nc:
        stream = nc.jetstream().create_stream(name="S", subjects=["S.>"])
        consumer = stream.create_consumer(durable_name="c", ack_wait=60)
        nc.jetstream().publish_many(("S.a", b"x") for _ in range(6))
        batch = consumer.fetch(6, timeout=20)
        reply = batch[2].reply or ""
        assert len(reply.split(".")) == 11
        metadata = batch[2].metadata
        assert metadata == jetsync.parse_ack_subject(reply)
        assert jetsync.parse_ack_subject(reply + ".more.tokens") == metadata
        assert (metadata.stream, metadata.consumer, metadata.domain) == ("S", "c", domain)
        assert (metadata.stream_seq, metadata.consumer_seq, metadata.num_delivered) == (3, 3, 1)
        assert metadata.num_pending == 3
        assert metadata.account_hash
        assert batch.to_arrow()["stream_seq"].to_pylist() == [1, 2, 3, 4, 5, 6]
        batch[0].ack_sync(timeout=20)
        batch[1].nak()
        again = consumer.next(timeout=20)
        assert again.metadata.num_delivered == 2
        again.ack_sync(timeout=20)
        batch[2].term("no")
        assert len(batch[3].ack_next(timeout=0.2)) == 0
        batch.ack_sync(timeout=20)
        assert consumer.info().num_ack_pending == 0


@pytest.mark.timeout(600)
def test_the_consuming_suite_passes_with_the_second_form():
    command = [sys.executable, "-m", "pytest", "-p", "tests.harness.ack_v2"]
    done = subprocess.run(
        [*command, *LANE, *(f"tests/jetstream/{name}" for name in SUITE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert "second form" in done.stdout
    assert done.returncode == 0, done.stdout[-4000:]
