"""Events and logs say what happened where: kinds, subjects, loggers, fields for programs."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until
from tests.reliability.links import await_reconnect

LONG = 20.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def told():
    return []


@pytest.fixture
def nc(url, told):
    with jetsync.connect(url, name="logs", on_event=told.append) as connection:
        yield connection


@pytest.fixture
def stream(nc, request):
    name = f"LOG{abs(hash(request.node.nodeid)) % 10**9}"
    yield nc.jetstream().create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    nc.jetstream().delete_stream(name)


def fails(msg: object) -> None:
    raise ZeroDivisionError("of a callback")


_STORED = ("consume", "push", "ordered")
"""Ways whose messages come out of a stream."""
_SETTLED_LATER = ("published", "asked")
"""Futures: what a callback raises that is added after the answer is raised there and then."""


@pytest.mark.parametrize("way", ["subscribe", "service", *_SETTLED_LATER, *_STORED])
def test_a_callback_that_raises_is_told_with_its_message(nc, stream, told, caplog, way) -> None:
    subject, js = f"{stream.name}.x", nc.jetstream()
    with caplog.at_level(logging.ERROR, logger="jetsync"):
        if way == "subscribe":
            nc.subscribe(subject, callback=fails)
            nc.publish(subject)
        elif way == "service":
            nc.add_service("logs", "1.0.0").add_endpoint("x", fails, subject=subject)
            nc.request(subject)
        elif way in _SETTLED_LATER:
            subject = f"later.{subject}"  # no stream answers it before there is a callback
            sub = nc.subscribe(subject)
            send = js.publish_async if way == "published" else nc.request_async
            send(subject).add_done_callback(fails)
            sub.next(timeout=LONG).respond(b'{"stream":"S","seq":1}')
        else:
            js.publish(subject)
            if way == "consume":
                stream.create_consumer(durable_name="c").consume(fails)
            elif way == "push":
                js.subscribe(subject, stream=stream.name, durable="c", callback=fails)
            else:
                stream.ordered_consumer().consume(fails)
        wait_until(lambda: any(event.kind == "callback_error" for event in told), timeout=LONG)
        wait_until(lambda: any(record.exc_info for record in caplog.records), timeout=LONG)
    event = next(event for event in told if event.kind == "callback_error")
    assert (event.subject, type(event.error)) == (subject, ZeroDivisionError)
    if way in _STORED:
        assert event.stream == stream.name
        assert event.consumer == "c" or way == "ordered"
    record = next(record for record in caplog.records if record.exc_info)
    assert (record.name, record.levelno) == ("jetsync.connection", logging.ERROR)
    assert repr(subject) in record.getMessage()
    fields = {key: value for key, value in vars(record).items() if key.startswith("nats_")}
    assert fields["nats_event"] == "callback_error"
    assert (fields["nats_subject"], fields["nats_connection"]) == (subject, "logs")
    assert fields.get("nats_stream") == event.stream
    assert fields.get("nats_consumer") == event.consumer
    assert fields.get("nats_seq") == event.seq == (1 if way in _STORED else None)
    assert None not in fields.values()
    assert "in fails" in caplog.text


def test_a_callback_that_raises_all_the_time_does_not_flood_the_log(nc, told, caplog) -> None:
    with caplog.at_level(logging.ERROR, logger="jetsync"):
        nc.subscribe("flood", callback=fails)
        for _ in range(200):
            nc.publish("flood")
        wait_until(lambda: len(told) >= 200, timeout=LONG)
        shown = [record for record in caplog.records if record.exc_info]
        # One a second at most: a slow machine takes some of them for 200 calls.
        assert 1 <= len(shown) < 100


def test_errors_of_callbacks_and_slow_consumers_reach_on_error_too(url) -> None:
    errors: list[jetsync.Event] = []
    with jetsync.connect(url, on_error=errors.append) as nc:
        nc.subscribe("bad", callback=fails)
        slow = nc.subscribe("slow", pending_messages_limit=1)
        nc.publish("bad")
        for _ in range(10):
            nc.publish("slow")
        wait_until(
            lambda: {"callback_error", "slow_consumer"} <= {e.kind for e in errors}, timeout=LONG
        )
        event = next(event for event in errors if event.kind == "slow_consumer")
        assert event.subject == "slow"
        assert isinstance(event.error, jetsync.SlowConsumerError)
        assert slow.dropped > 0
        assert isinstance(nc.last_error, (jetsync.SlowConsumerError, ZeroDivisionError))


def test_what_is_not_permitted_is_an_event_of_its_own(told) -> None:
    config = 'authorization { users: [{user: u, password: p, permissions: {publish: "ok"}}] }'
    with (
        NatsServer(config=config) as server,
        jetsync.connect(server.url, user="u", password="p", on_event=told.append) as nc,
    ):
        nc.publish("secret")
        nc.flush()
        wait_until(lambda: any(event.kind == "permission" for event in told), timeout=LONG)


def test_a_good_link_clears_the_last_error_and_says_where_it_leads(nc, told, caplog) -> None:
    with caplog.at_level(logging.INFO, logger="jetsync"):
        nc.subscribe("bad", callback=fails)
        nc.publish("bad")
        wait_until(lambda: nc.last_error is not None, timeout=LONG)
        nc.force_reconnect()
        await_reconnect(nc, 1)
        wait_until(lambda: any(event.kind == "reconnected" for event in told), timeout=LONG)
        assert nc.last_error is None
        wait_until(lambda: "reconnected" in caplog.text, timeout=LONG)
    record = next(r for r in caplog.records if r.getMessage().startswith("reconnected"))
    assert re.search(r"as 'logs', nats-server \d+\.\d+.*, round trip .* ms", record.getMessage())
    assert 0 < vars(record)["nats_duration"] < LONG


def test_a_failed_attempt_names_its_connection_and_server_for_programs(caplog) -> None:
    with caplog.at_level(logging.DEBUG, logger="jetsync"), pytest.raises(jetsync.NoServersError):
        jetsync.connect("nats://127.0.0.1:1", name="logs")
    (record,) = (r for r in caplog.records if r.getMessage().startswith("cannot connect"))
    about = (record.__dict__["nats_connection"], record.__dict__["nats_server"])
    assert about == ("logs", "127.0.0.1:1")


def test_the_protocol_is_logged_where_its_logger_is_at_debug(url, caplog) -> None:
    logger = logging.getLogger("jetsync.wire")
    logger.setLevel(logging.DEBUG)
    try:
        with jetsync.connect(url, name="traced") as nc:
            sub = nc.subscribe("wire.a")
            nc.publish("wire.a", b"x" * 3000)
            assert len(sub.next(LONG).data) == 3000
    finally:
        logger.setLevel(logging.NOTSET)
    records = [record for record in caplog.records if record.name == "jetsync.wire"]
    said = [record.getMessage() for record in records]
    assert any("->>" in text and "PUB wire.a 3000" in text for text in said)
    assert any("<<-" in text and "MSG wire.a" in text for text in said)
    assert not any("CONNECT" in text for text in said)
    assert max(map(len, said)) < 5000
    assert vars(records[0])["nats_connection"] == "traced"


def test_at_debug_of_the_whole_library_the_protocol_is_not_logged(url, caplog) -> None:
    with caplog.at_level(logging.DEBUG, logger="jetsync"), jetsync.connect(url) as nc:
        nc.publish("wire.b")
        nc.flush()
    assert not [record for record in caplog.records if record.name == "jetsync.wire"]


def test_every_logger_is_one_of_those_that_are_documented() -> None:
    page = (ROOT / "docs/guide/observe.md").read_text()
    documented = set(re.findall(r"`(jetsync\.\w+)`", page))
    used = set()
    for path in (ROOT / "jetsync").rglob("*.py*"):
        if path.suffix in (".py", ".pyx") and "spark" not in path.parts and "cli" not in path.parts:
            used |= set(re.findall(r'getLogger\("([\w.]+)"\)', path.read_text()))
    assert used - {"jetsync"} <= documented


def test_requests_of_the_api_are_logged_by_a_logger_of_their_own(nc, stream, caplog) -> None:
    js = nc.jetstream()
    with caplog.at_level(logging.DEBUG, logger="jetsync.api"):
        stream.info()
        with pytest.raises(jetsync.StreamNotFoundError):
            js.stream("NOT_THERE")
    done, failed = (r for r in caplog.records if r.name == "jetsync.api")
    fields = vars(done)
    assert fields["nats_subject"] == f"$JS.API.STREAM.INFO.{stream.name}"
    assert fields["nats_connection"] == "logs"
    assert 0 < fields["nats_duration"] < LONG
    assert "nats_err_code" not in fields
    assert vars(failed)["nats_err_code"] == 10059
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="jetsync.api"):
        stream.info()
    assert not caplog.records


def test_watches_of_buckets_are_logged_by_a_logger_of_their_own(nc, caplog) -> None:
    bucket = nc.jetstream().create_key_value(bucket="logged", storage="memory")
    with caplog.at_level(logging.DEBUG, logger="jetsync.kv"), bucket.watch("a.>"):
        pass
    (record,) = (r for r in caplog.records if r.name == "jetsync.kv")
    assert "a.>" in record.getMessage()
    assert "logged" in record.getMessage()
    nc.jetstream().delete_key_value("logged")
