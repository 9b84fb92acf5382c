"""A refused publish is told in the same way by every call, with what users branch on."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import pytest

import jetsync
from jetsync.server import NatsServer


def one(js, subject, data=b""):
    with pytest.raises(jetsync.PublishError) as caught:
        js.publish(subject, data, timeout=2)
    return caught.value


def with_future(js, subject, data=b""):
    return js.publish_async(subject, data, timeout=2).exception()


def in_bulk(js, subject, data=b""):
    [(_, error)] = js.publish_many([(subject, data)], timeout=2).failed
    return error


WAYS = [one, with_future, in_bulk]


@pytest.fixture
def streams(js):
    made = []

    def make(name, **config):
        made.append(js.create_stream(name=name, subjects=[name], storage="memory", **config))
        return made[-1]

    yield make
    for stream in made:
        stream.delete()


@pytest.mark.parametrize("fail", WAYS)
def test_a_full_stream_is_a_limit_and_not_stored(js, streams, fail):
    streams("FULL", max_msgs=1, discard="new")
    js.publish("FULL")
    error = fail(js, "FULL")
    assert isinstance(error, jetsync.NotStoredError)
    assert isinstance(error, jetsync.LimitsExceededError)
    assert (error.err_code, error.retryable) == (10077, False)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (again.err_code, str(again)) == (error.err_code, str(error))


@pytest.mark.parametrize("fail", WAYS)
def test_a_sealed_stream_says_so(js, streams, fail):
    stream = streams("SEALED")
    js.update_stream(name="SEALED", subjects=["SEALED"], storage="memory", sealed=True)
    assert stream.info().config.sealed
    error = fail(js, "SEALED")
    assert isinstance(error, jetsync.NotStoredError)
    assert isinstance(error, jetsync.StreamSealedError)
    assert error.err_code == 10109


@pytest.mark.parametrize("fail", WAYS)
def test_a_subject_without_a_stream_has_no_error_number(js, fail):
    error = fail(js, "nothing.stores.this")
    assert type(error) is jetsync.NotStoredError
    assert (error.code, error.err_code) == (0, 0)


@pytest.fixture(scope="module")
def guarded():
    """A server on which ``secret`` may not be published."""
    deny = {"publish": {"deny": ["secret"]}}
    users = [{"user": "u", "password": "p", "permissions": deny}]
    with NatsServer(config={"jetstream": {}, "authorization": {"users": users}}) as server:
        yield server


@pytest.mark.parametrize("fail", WAYS)
def test_a_denied_first_copy_is_certainly_not_stored(guarded, fail):
    with jetsync.connect(guarded.url, user="u", password="p") as nc:
        error = fail(nc.jetstream(), "secret")
        assert isinstance(error, jetsync.NotStoredError)
        assert isinstance(error.__cause__, jetsync.PermissionsError)


def test_features_of_newer_servers_are_refused_before_anything_is_sent(js, nc, monkeypatch):
    old = partial(jetsync.ServerInfo.parse, b'{"version":"2.10.25"}')
    monkeypatch.setattr(type(nc), "server_info", property(lambda _: old()))
    for options in ({"ttl": 5}, {"incr": 1}, {"schedule": "@hourly", "schedule_target": "t"}):
        for publish in (js.publish, js.publish_async):
            with pytest.raises(jetsync.ApiLevelRequiredError):
                publish("s", b"", **options)


def test_a_payload_that_the_server_takes_no_more_is_not_sent_twice():
    """A limit that was lowered is told by an error that names no message, and ends the link: so the
    first publish may be stored. What is published behind it is refused before a byte leaves."""
    with (
        NatsServer(config="max_payload: 512KB") as server,
        jetsync.connect(server.url, reconnect_wait=0.01) as nc,
    ):
        js = nc.jetstream(timeout=20)
        stream = js.create_stream(name="S", subjects=["s"], storage="memory")
        server.reload("max_payload: 1KB")
        with pytest.raises(jetsync.PublishUnknownError, match="the last one was refused") as caught:
            js.publish("s", bytes(5000))
        assert isinstance(caught.value.__cause__, jetsync.MaxPayloadError)
        with pytest.raises(jetsync.MaxPayloadError):
            js.publish("s", bytes(5000))
        assert nc.stats.reconnects == 1
        assert stream.info().state.messages == 0


def test_too_many_failures_end_a_bulk_publish_and_its_report_stays_short(js, streams):
    streams("FEW", max_msgs=1, discard="new")
    report = js.publish_many((("FEW", b"x") for _ in range(100_000)), max_failed=100)
    assert report.stored == 1
    assert not report.complete
    assert 100 < len(report.failed) < 50_000
    assert len(repr(report)) < 2000


def test_rows_of_another_shape_end_a_bulk_publish(js, streams):
    streams("SHAPE")
    rows = [("SHAPE", b"fine"), *[("SHAPE", b"x", None, "an id")] * 100_000]
    report = js.publish_many(rows)
    assert report.stored == 1
    assert not report.complete
    assert isinstance(report.failed[0][1], jetsync.ConfigError)
    assert len(report.failed) < 1000
