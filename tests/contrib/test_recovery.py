"""kombu on JetStream: what was missed, lost, refused or cannot be read."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from datetime import datetime, timedelta, timezone

import kombu
import pytest

import jetsync
from jetsync.contrib.kombu.routes import Routes
from jetsync.server import NatsServer
from tests.contrib.reading import Reading, send
from tests.harness.waiting import wait_until


def test_an_outage_while_a_queue_is_to_be_renewed_ends_nothing(connect, tmp_path):
    with NatsServer(store_dir=tmp_path) as server:
        connection = connect(f"{server.url}/v", reconnect_wait=0.05)
        queue = kombu.Queue("own", kombu.Exchange("x"), auto_delete=True, expires=1.0)
        reading = Reading(connection, queue)
        server.kill()
        begun = time.monotonic()
        while time.monotonic() < begun + 1.5:  # renewals are due meanwhile
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.2)
        server.start()  # streams and bucket were in memory
        wait_until(lambda: connection.transport.broker.nc.is_connected)
        ends_at = time.monotonic() + 10
        while 1 not in reading.bodies and time.monotonic() < ends_at:
            with contextlib.suppress(jetsync.Error):
                send(connection, 1, "own")
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.2)
        assert 1 in reading.bodies
        routes = connection.transport.broker.routes
        assert [queue for queue, _ in routes.bindings("x")] == ["own"]
        connection.release()


def test_what_is_being_worked_on_is_not_handed_back_when_a_server_loses_its_memory(
    connect, tmp_path
):
    """The stream of tasks is in files, that of remote control is in memory."""
    with NatsServer(store_dir=tmp_path) as server:
        connection = connect(f"{server.url}/v", storage="file", reconnect_wait=0.05)
        exchange = kombu.Exchange("control", type="fanout")
        own = kombu.Queue("own", exchange, auto_delete=True)
        tasks = kombu.Queue("tasks")
        reading = Reading(connection, tasks, own, settle=None)
        send(connection, "task", tasks)
        reading.until(1)
        server.stop()  # one that is killed may forget what it delivered a moment ago
        server.start()
        ends_at = time.monotonic() + 20
        while "command" not in reading.bodies and time.monotonic() < ends_at:
            with contextlib.suppress(jetsync.Error):
                kombu.Producer(connection.channel()).publish("command", exchange="control")
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.5)
        assert "command" in reading.bodies
        assert reading.bodies.count("task") == 1
        reading.messages[0].ack()
        wait_until(lambda: connection.transport.broker.size("tasks") == 0)
        connection.release()


def test_errors_of_an_outage_are_ones_that_kombu_recovers_from(connect):
    recoverable = connect().recoverable_connection_errors
    for error in (
        jetsync.NotStoredError,
        jetsync.NoRespondersError,
        jetsync.JetStreamUnavailableError,
        jetsync.DisconnectedError,
    ):
        assert error in recoverable


def test_a_queue_whose_renewal_was_missed_is_declared_and_bound_again(connect, monkeypatch):
    connection = connect()
    broker = connection.transport.broker
    queue = kombu.Queue("own", kombu.Exchange("x"), auto_delete=True, expires=1.0)
    with monkeypatch.context() as asleep:  # the process, as on a computer that was suspended
        asleep.setattr(broker, "renew", lambda *_: None)
        reading = Reading(connection, queue)
        reading.nothing_comes()
        wait_until(lambda: broker.routes.queue("own") is None, timeout=15)
    broker.js.delete_consumer(f"KOMBU_{broker.vhost}_TRANSIENT", "own-0")
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=1)
    kombu.Producer(connect(name="another").channel()).publish(1, exchange="x", routing_key="")
    assert reading.until(1) == [1]
    assert broker.record("own").transient
    assert broker.js.stream(f"KOMBU_{broker.vhost}").info().state.consumer_count == 0


def test_any_error_of_a_renewal_is_logged_and_it_is_tried_again(connect, monkeypatch, caplog):
    connection = connect()
    broker = connection.transport.broker
    tries = []

    def renew(queue, *_):
        tries.append(queue)
        if len(tries) == 1:
            raise RuntimeError("not an error of jetsync")

    monkeypatch.setattr(broker, "renew", renew)
    with caplog.at_level(logging.ERROR, logger="jetsync.contrib"):
        Reading(connection, kombu.Queue("own", auto_delete=True, expires=1.0))
        wait_until(lambda: len(tries) >= 2)
    assert "'own' is not renewed yet" in caplog.text
    assert "not an error of jetsync" in caplog.text


def test_threads_that_prepare_a_broker_at_once_make_one_watch_of_its_bindings(connect, monkeypatch):
    broker = connect().transport.broker
    broker.js.delete_key_value(f"kombu-{broker.vhost}")  # the next bucket is another one
    made = []

    def routes(*arguments, **options):
        made.append(Routes(*arguments, **options))
        time.sleep(0.3)  # the other thread looks meanwhile, if it may
        return made[-1]

    monkeypatch.setattr("jetsync.contrib.kombu.broker.Routes", routes)
    threads = [threading.Thread(target=broker.prepare) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_an_eta_on_a_queue_of_one_process_is_left_to_the_worker(connect):
    connection = connect()
    eta = (datetime.now(timezone.utc) + timedelta(hours=1)).isoformat()
    queue = kombu.Queue("own", auto_delete=True)
    send(connection, "x", queue, headers={"eta": eta, "task": "t"})
    message = connection.channel().basic_get("own", no_ack=True)
    assert message.headers["eta"] == eta


def test_a_passive_declaration_changes_nothing(connect):
    connection = connect()
    send(connection, "x", kombu.Queue("q", max_priority=3))
    channel = connection.channel()
    before = connection.transport.broker.record("q")
    assert channel.queue_declare("q", passive=True).message_count == 1
    assert connection.transport.broker.record("q") == before
    with pytest.raises(connection.channel_errors):
        channel.queue_declare("none", passive=True)


def test_a_queue_that_is_declared_otherwise_keeps_its_priorities_and_it_is_said(connect, caplog):
    connection = connect()
    kombu.Queue("q", max_priority=3)(connection.channel()).declare()
    with caplog.at_level(logging.WARNING, logger="jetsync.contrib"):
        kombu.Queue("q", message_ttl=60.0)(connection.channel()).declare()
    assert "'q' was declared as" in caplog.text
    record = connection.transport.broker.record("q")
    assert (record.levels, record.message_ttl) == (4, 60.0)


@pytest.mark.parametrize("levels", [1, 3])
def test_a_consumer_that_has_gone_is_made_again_whichever_it_is(connect, levels):
    connection = connect()
    broker = connection.transport.broker
    queues = [kombu.Queue("a", max_priority=levels - 1), kombu.Queue("b")][
        : 1 if levels == 1 else 2
    ]
    reading = Reading(connection, *queues)
    reading.nothing_comes()
    for name in ["a-0"] if levels == 1 else ["b-0", "a-1"]:
        broker.js.delete_consumer(f"KOMBU_{broker.vhost}", name)
    for queue in queues:
        for priority in range(levels):
            send(connection, [queue.name, priority], queue.name, priority=priority)
    reading.until(2 * levels if levels > 1 else 1)


def test_a_rejected_message_that_cannot_be_buried_is_handed_back(connect):
    connection = connect()
    js, vhost = connection.transport.broker.js, connection.transport.broker.vhost
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    send(connection, "x", kombu.Queue("q", queue_arguments=arguments))
    channel = connection.channel()
    message = channel.basic_get("q")
    config = js.stream(f"KOMBU_{vhost}").cached_info.config
    js.update_stream(dataclasses.replace(config, max_msg_size=10))  # none is taken
    with pytest.raises(jetsync.NotStoredError):
        message.reject()
    assert channel.basic_get("q").payload == "x"


def test_what_is_no_kombu_message_is_dropped_and_said(connect, caplog):
    connection = connect()
    broker = connection.transport.broker
    queue = kombu.Queue("q")
    queue(connection.channel()).declare()
    for data in (b"\xff", b"[]", b"{}", b'{"properties": {}, "body": 1}'):
        broker.js.publish(f"kombu.{broker.vhost}.q.q.0", data)
    send(connection, "x", queue)
    assert connection.channel().basic_get("q", no_ack=True).payload == "x"
    broker.js.publish(f"kombu.{broker.vhost}.q.q.0", b"no JSON")
    send(connection, "y", queue)
    assert Reading(connection, queue).until(1) == ["y"]
    assert "is no kombu message" in caplog.text
    wait_until(lambda: broker.size("q") == 0)


def test_a_publish_that_is_repeated_stores_each_copy_once(connect):
    connection = connect()
    js, vhost = connection.transport.broker.js, connection.transport.broker.vhost
    exchange = kombu.Exchange("x", type="fanout")
    channel = connection.channel()
    for queue in (kombu.Queue("a", exchange), kombu.Queue("b", exchange, auto_delete=True)):
        queue(channel).declare()
    name = f"KOMBU_{vhost}_TRANSIENT"
    config = js.stream(name).cached_info.config
    js.update_stream(dataclasses.replace(config, max_msg_size=10))  # it takes none
    message = channel.prepare_message("body", properties={"delivery_mode": 2})
    with pytest.raises(jetsync.NotStoredError):
        channel.basic_publish(message, "x", "")
    js.update_stream(config)
    channel.basic_publish(message, "x", "")  # as kombu's ensure does
    broker = connection.transport.broker
    assert (broker.size("a"), broker.size("b")) == (1, 1)
    channel.basic_publish(message, "x", "")  # on purpose
    assert (broker.size("a"), broker.size("b")) == (2, 2)


def test_what_a_deleted_queue_leaves_in_the_bucket_goes_too(connect):
    connection = connect()
    js, vhost = connection.transport.broker.js, connection.transport.broker.vhost
    js.delete_key_value(f"kombu-{vhost}")
    js.create_key_value(
        jetsync.KeyValueConfig(bucket=f"kombu-{vhost}", storage="memory", limit_marker_ttl=1)
    )
    channel = connect(name="another").channel()
    queue = kombu.Queue("q", kombu.Exchange("x"), routing_key="k")(channel)
    queue.declare()
    queue.delete()
    stream = js.stream(f"KV_kombu-{vhost}")
    wait_until(lambda: stream.info().state.messages == 0, timeout=15)
    queue.declare()
    assert channel.queue_declare("q", passive=True).message_count == 0


def test_streams_without_a_ttl_of_messages_take_messages_that_expire(connect):
    """As they were made by an older server, or by others."""
    connection = connect()
    js, vhost = connection.transport.broker.js, connection.transport.broker.vhost
    js.delete_key_value(f"kombu-{vhost}")
    js.create_key_value(jetsync.KeyValueConfig(bucket=f"kombu-{vhost}", storage="memory"))
    for name in (f"KOMBU_{vhost}", f"KOMBU_{vhost}_TRANSIENT"):
        config = js.stream(name).cached_info.config
        js.delete_stream(name)
        js.create_stream(
            dataclasses.replace(config, allow_msg_ttl=False, allow_msg_schedules=False)
        )
    other = connect(name="another")
    send(other, "late", kombu.Queue("q"), expiration=0.1)
    send(other, "in time", "q", expiration=60)
    reply = kombu.Queue("reply", kombu.Exchange("answers"), auto_delete=True, expires=60)
    send(other, "answer", reply)
    time.sleep(0.15)  # the message is older than it may be
    assert Reading(other, kombu.Queue("q")).until(1) == ["in time"]
    assert other.channel().basic_get("reply").payload == "answer"
