"""JetStream of another domain, over a leaf node; API prefixes; servers without JetStream."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.domains import two_domains
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def leaf():
    """A hub and a leaf node, each with a JetStream domain of its own; a connection to the leaf."""
    with two_domains() as (_, here):
        yield here


def test_each_domain_has_its_own_streams(leaf):
    near, far = leaf.jetstream(timeout=20), leaf.jetstream(domain="hub", timeout=20)
    assert (near.account_info().domain, far.account_info().domain) == ("edge", "hub")
    stream = far.create_stream(
        name="FAR", subjects=["far.>"], allow_direct=True, allow_msg_ttl=True
    )
    try:
        assert stream.info().domain == "hub"
        assert "FAR" in set(far.stream_names())
        assert "FAR" not in set(near.stream_names())
        with pytest.raises(jetsync.StreamNotFoundError):
            near.stream("FAR")
        ack = far.publish("far.a", b"x")
        assert (ack.stream, ack.domain) == ("FAR", "hub")
        assert stream.get_msg(1).data == stream.get_msg(1, direct=True).data == b"x"
        assert [msg.data for msg in stream.get_msgs(1, max_messages=5)] == [b"x"]
        assert [msg.data for msg in stream.get_last_msgs("far.*")] == [b"x"]
        consumer = stream.create_consumer(durable_name="c")
        (msg,) = consumer.fetch(1, timeout=20)
        msg.ack_sync()
        assert (msg.metadata.stream, consumer.info().ack_floor.stream_seq) == ("FAR", 1)
        assert stream.purge() == 1
    finally:
        stream.delete()


def test_a_domain_is_the_same_as_its_prefix(leaf):
    by_prefix = leaf.jetstream(api_prefix="$JS.hub.API", timeout=20)
    assert by_prefix.account_info().domain == "hub"
    assert leaf.jetstream(api_prefix="$JS.hub.API.", timeout=20).account_info().domain == "hub"
    own = leaf.jetstream(domain="edge", timeout=20)
    assert own.account_info().domain == "edge"


def test_an_origin_in_another_domain_is_copied(leaf):
    far, near = leaf.jetstream(domain="hub", timeout=20), leaf.jetstream(timeout=20)
    origin = far.create_stream(name="ORIGIN", subjects=["origin.>"])
    copy = near.create_stream(
        name="COPY", mirror={"name": "ORIGIN", "external": {"api": "$JS.hub.API", "deliver": ""}}
    )
    try:
        far.publish("origin.a", b"x")
        wait_until(lambda: copy.info().state.messages == 1, timeout=30)
        about = copy.info().mirror
        assert about.external.api == "$JS.hub.API"
        assert copy.get_msg(1).data == b"x"
    finally:
        copy.delete()
        origin.delete()


def test_a_domain_that_is_not_there_is_told_at_once(leaf):
    for wrong in ({"domain": "nowhere"}, {"api_prefix": "no.such.prefix"}):
        js = leaf.jetstream(timeout=60, **wrong)
        for call in (
            js.account_info,
            lambda js=js: js.create_stream(name="S", allow_msg_ttl=True),
            lambda js=js: js.stream("S"),
            lambda js=js: list(js.stream_names()),
        ):
            with pytest.raises(jetsync.JetStreamNotEnabledError, match="domain or prefix"):
                call()


@pytest.mark.parametrize(
    "wrong",
    [
        {"domain": "a", "api_prefix": "b"},
        {"domain": "a.b"},
        {"domain": ""},
        {"api_prefix": "a b"},
        {"api_prefix": "a.*"},
    ],
)
def test_a_wrong_domain_or_prefix_is_refused(leaf, wrong):
    with pytest.raises(jetsync.ConfigError):
        leaf.jetstream(**wrong)


def test_a_server_or_account_without_jetstream_says_so_at_once():
    accounts = """
        accounts {
            WITH { jetstream: enabled, users: [ { user: with, password: x } ] }
            WITHOUT { users: [ { user: without, password: x } ] }
        }
    """
    with NatsServer(config=accounts) as server:
        with jetsync.connect(server.url, user="without", password="x") as nc:
            with pytest.raises(jetsync.JetStreamNotEnabledError, match="not enabled") as caught:
                nc.jetstream(timeout=60).create_stream(name="S")
            assert caught.value.err_code == 10039
        with jetsync.connect(server.url, user="with", password="x") as nc:
            assert nc.jetstream().account_info().streams == 0
    with NatsServer(jetstream=False) as server, jetsync.connect(server.url) as nc:
        for call in (nc.jetstream(timeout=60).account_info, lambda: nc.jetstream().stream("S")):
            with pytest.raises(jetsync.JetStreamNotEnabledError):
                call()
