"""Over a leaf node two streams can take one subject: with a domain, only its answer counts."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import jetsync
from tests.harness.domains import parted_domains
from tests.harness.waiting import wait_until


@contextlib.contextmanager
def rivals():
    """A hub and a leaf that both have a stream on ``ord.>``, and the link between them."""
    with parted_domains() as (there, here, link):
        there.jetstream().create_stream(name="HUB", subjects=["ord.>"], storage="memory")
        here.jetstream().create_stream(name="EDGE", subjects=["ord.>"], storage="memory")
        yield there, here, link


@pytest.fixture(scope="module")
def domains():
    with rivals() as (there, here, _):
        yield there, here


def is_away(nc):
    """Whether the server has noticed that the hub is not served any more."""
    try:
        nc.request("$JS.hub.API.INFO", timeout=0.2)
    except jetsync.NoRespondersError:
        return True
    except jetsync.TimeoutError:
        pass
    return False


def stored(nc, name):
    return nc.jetstream().stream(name).info().state.messages


def test_every_publish_is_confirmed_by_the_domain_that_was_named(domains):
    there, here = domains
    js = here.jetstream(domain="hub")
    before = stored(there, "HUB")
    assert js.publish("ord.a").domain == "hub"
    assert [js.publish_async("ord.a").result().domain for _ in range(5)] == ["hub"] * 5
    assert js.publish_many([("ord.a", b"")] * 5).stored == 5
    assert stored(there, "HUB") == before + 11


def test_a_refusal_of_the_nearer_stream_does_not_count(domains):
    _, here = domains
    js = here.jetstream(domain="hub")
    assert js.publish("ord.a", expected_stream="HUB").stream == "HUB"
    assert js.publish_async("ord.a", expected_stream="HUB").result().stream == "HUB"
    assert js.publish_many([("ord.a", b"")], expected_stream="HUB").stored == 1
    with pytest.raises(jetsync.WrongLastSequenceError):
        js.publish("ord.a", expected_last_seq=10**6)


def test_while_the_domain_is_away_nothing_counts_as_stored_there():
    with rivals() as (there, here, link):
        js = here.jetstream(domain="hub")
        link.stop()
        wait_until(lambda: not link.connections)
        with pytest.raises(jetsync.PublishUnknownError, match="'edge' has confirmed it, 'hub'"):
            js.publish("ord.a", timeout=1)
        error = js.publish_async("ord.a", timeout=1).exception()
        assert isinstance(error, jetsync.PublishUnknownError)
        assert "'edge' has confirmed it" in str(error)
        report = js.publish_many([("ord.a", b"")] * 3, timeout=1)
        assert (report.stored, len(report.failed)) == (0, 3)
        assert stored(there, "HUB") == 0


def test_calls_wait_while_the_link_to_the_domain_is_away_for_a_moment():
    """Whatever they ask for: when no server is there, none of it is carried out."""
    with rivals() as (_, here, link):
        js = here.jetstream(domain="hub", timeout=30)
        stream = js.stream("HUB")
        bucket = js.create_key_value(bucket="B", storage="memory")
        bucket.put("k", b"v")
        calls = {
            "info": lambda: stream.info().config.name,
            "account": lambda: js.account_info().domain,
            "get": lambda: bucket.get("k").value,
            "keys": lambda: list(bucket.keys()),
            "watch": lambda: bucket.watch().next(timeout=30).key,
            "new consumer": lambda: stream.create_consumer(durable_name="c").name,
            "new stream": lambda: js.create_stream(name="NEW", subjects=["n"]).name,
            "deletion": lambda: js.delete_stream("OLD"),
            "ordered": lambda: js.ordered_consumer("KV_B").next(timeout=30).data,
        }
        js.create_stream(name="OLD", subjects=["o"], storage="memory")
        link.stop()
        wait_until(lambda: is_away(here))
        with pytest.raises(jetsync.JetStreamUnavailableError) as caught:
            stream.info(timeout=0.3)
        assert caught.value.retryable
        with ThreadPoolExecutor(len(calls)) as threads:
            answers = {name: threads.submit(call) for name, call in calls.items()}
            began = time.monotonic()
            wait_until(lambda: time.monotonic() > began + 0.5)
            early = {name: answer.exception() for name, answer in answers.items() if answer.done()}
            link.restart()
            found = {name: answer.result(60) for name, answer in answers.items()}
        assert early == {}
        assert found == {
            "info": "HUB",
            "account": "hub",
            "get": b"v",
            "keys": ["k"],
            "watch": "k",
            "new consumer": "c",
            "new stream": "NEW",
            "deletion": None,
            "ordered": b"v",
        }
        with pytest.raises(jetsync.JetStreamNotEnabledError):
            here.jetstream(domain="typo").account_info(timeout=5)
