"""kombu on JetStream: routing, priorities, prefetch, times, redelivery, what remains."""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta, timezone

import kombu
import pytest

import jetsync
from jetsync import ConfigError
from jetsync.contrib.names import bucket_token, from_token, to_token
from jetsync.contrib.options import Address, read_options
from jetsync.server import NatsServer
from tests.contrib.reading import Reading, send
from tests.harness.waiting import wait_until


def pending(connection: kombu.Connection, queue: str) -> int:
    """How many messages of a queue are with a client."""
    _, consumers = connection.transport.broker.consumers(queue)
    return sum(consumer.info().num_ack_pending for consumer in consumers)


def test_what_one_process_binds_another_one_routes_by(connect):
    """Two brokers, each with a view of the bindings of its own."""
    here, there = connect(), connect(name="another process")
    assert here.transport.broker is not there.transport.broker
    direct = kombu.Exchange("jobs", type="direct")
    topic = kombu.Exchange("logs.all", type="topic")
    fanout = kombu.Exchange("all", type="fanout")
    queues = [
        kombu.Queue("a", direct, routing_key="k1"),
        kombu.Queue("b", direct, routing_key="k2"),
        kombu.Queue("c@d.e", topic, routing_key="log.*.error"),
        kombu.Queue("f", fanout),
        kombu.Queue("g", fanout),
    ]
    for queue in queues:
        queue(there.channel()).declare()
    publish = kombu.Producer(here.channel()).publish
    publish(1, exchange="jobs", routing_key="k1")
    publish(2, exchange="jobs", routing_key="k3")  # bound to nothing
    publish(3, exchange="logs.all", routing_key="log.db.error")
    publish(4, exchange="logs.all", routing_key="log.db.info")
    publish(5, exchange="all", routing_key="")
    got = {}
    for queue in queues:
        reading = Reading(there, queue)
        got[queue.name] = reading.until(0 if queue.name == "b" else 1)
        reading.consumer.cancel()
    assert got == {"a": [1], "b": [], "c@d.e": [3], "f": [5], "g": [5]}


def test_what_is_requeued_comes_again_and_says_so(connect):
    connection = connect()
    queue = kombu.Queue("q")
    send(connection, "x", queue)
    channel = connection.channel()
    first = channel.basic_get("q")
    assert first is not None
    assert "redelivered" not in first.delivery_info
    assert "x-delivery-count" not in first.headers
    first.requeue()
    second = channel.basic_get("q")
    assert second is not None
    assert second.delivery_info["redelivered"] is True
    assert second.headers["x-delivery-count"] == 1
    second.ack()
    assert channel.basic_get("q") is None


def test_what_a_closed_channel_has_not_settled_is_given_to_others_at_once(connect):
    connection = connect(ack_wait=60)
    queue = kombu.Queue("q")
    for number in range(5):
        send(connection, number, queue)
    channel = connection.channel()
    consumer = kombu.Consumer(channel, [queue], callbacks=[lambda body, message: None])
    consumer.consume()
    connection.drain_events(timeout=5)
    consumer.cancel()
    channel.close()
    assert sorted(Reading(connection, queue).until(5)) == [0, 1, 2, 3, 4]


def test_higher_priorities_come_first_also_one_at_a_time(connect):
    connection = connect()
    queue = kombu.Queue("q", max_priority=9)
    for number, priority in enumerate((1, 9, 5, 0, 9)):
        send(connection, number, queue, priority=priority)
    assert Reading(connection, queue, prefetch=1).until(5) == [1, 4, 2, 0, 3]


@pytest.mark.parametrize("prefetch", [1, 3])
def test_a_client_never_has_more_than_its_prefetch_count(connect, prefetch):
    """Two queues, one of them with priorities, and an idle reader that has to leave the rest."""
    connection = connect()
    queues = [kombu.Queue("p", max_priority=3), kombu.Queue("q")]
    reading = Reading(connection, *queues, prefetch=prefetch, settle=None)
    reading.nothing_comes()  # every reader waits for a message now
    for number in range(8):
        send(connection, number, queues[number % 2], priority=number % 4)
    reading.until(prefetch)
    others = Reading(connect(), *queues)
    others.until(8 - prefetch)
    for message in list(reading.messages):
        message.ack()
    reading.nothing_comes()
    wait_until(lambda: pending(connection, "p") + pending(connection, "q") == 0)


def test_messages_and_queues_age_out(connect):
    connection = connect()
    broker = connection.transport.broker
    send(connection, "late", kombu.Queue("q"), expiration=0.2)
    send(connection, "in time", "q", expiration=60)
    reply = kombu.Queue("reply", kombu.Exchange("answers"), auto_delete=True, expires=1.0)
    send(connection, "never read", reply)
    broker.consumers("reply")
    wait_until(lambda: broker.routes.queue("reply") is None, timeout=15)
    assert Reading(connection, kombu.Queue("q")).until(1) == ["in time"]
    wait_until(lambda: broker.routes.bindings("answers") == [])
    stream = broker.js.stream(f"KOMBU_{broker.vhost}_TRANSIENT")
    wait_until(lambda: stream.info().state.consumer_count == 0, timeout=15)
    assert stream.info().state.messages == 0


def test_a_queue_that_is_read_does_not_age_out_while_its_worker_is_busy(connect):
    """A worker with the pool ``solo`` asks for no events while its task runs."""
    connection = connect()
    queue = kombu.Queue("mine", kombu.Exchange("x"), auto_delete=True, expires=1.0)
    reading = Reading(connection, queue)
    time.sleep(2.5)  # the task, which takes more than twice the life of its queue
    kombu.Producer(connect(name="another").channel()).publish(1, exchange="x", routing_key="")
    assert reading.until(1) == [1]


def test_an_exclusive_queue_ends_with_its_channel(connect):
    connection = connect()
    channel = connection.channel()
    kombu.Queue("own", kombu.Exchange("x"), exclusive=True)(channel).declare()
    send(connection, "x", "own")
    channel.close()
    routes = connection.transport.broker.routes
    assert routes.queue("own") is None
    assert routes.bindings("x") == []
    assert connection.transport.broker.size("own") == 0


def test_rejected_messages_go_where_their_queue_says(connect):
    connection = connect()
    dead = kombu.Queue("dead", kombu.Exchange("graveyard"), routing_key="bad")
    dead(connection.channel()).declare()
    arguments = {"x-dead-letter-exchange": "graveyard", "x-dead-letter-routing-key": "bad"}
    queue = kombu.Queue("q", queue_arguments=arguments)
    send(connection, "poison", queue)
    reading = Reading(connection, queue, settle=None)
    reading.until(1)
    reading.messages[0].reject()
    assert Reading(connection, dead).until(1) == ["poison"]
    wait_until(lambda: connection.transport.broker.size("q") == 0)


@pytest.mark.timed
def test_a_message_with_an_eta_is_kept_by_the_server_until_then(connect):
    connection = connect()
    queue = kombu.Queue("q")
    due = datetime.now(timezone.utc) + timedelta(seconds=1.2)
    send(connection, "later", queue, headers={"eta": due.isoformat(), "task": "t"})
    send(connection, "now", queue)
    reading = Reading(connection, queue)
    assert reading.until(1) == ["now"]
    wait_until(lambda: pending(connection, "q") == 0)  # the acknowledgement has come
    assert reading.until(2) == ["now", "later"]
    late = (datetime.now(timezone.utc) - due).total_seconds()
    assert 0 <= late < 1
    assert reading.messages[1].headers["x-eta"] == due.isoformat()
    assert reading.messages[1].headers["eta"] is None


def test_without_native_delay_the_message_goes_at_once_and_keeps_its_eta(connect):
    connection = connect(native_delay=False)
    eta = (datetime.now(timezone.utc) + timedelta(hours=1)).isoformat()
    send(connection, "x", kombu.Queue("q"), headers={"eta": eta, "task": "t"})
    message = connection.channel().basic_get("q", no_ack=True)
    assert message.headers["eta"] == eta


def test_reading_goes_on_after_a_restart_of_the_server(connect, tmp_path):
    with NatsServer(store_dir=tmp_path) as server:
        connection = connect(f"{server.url}/v", storage="file", reconnect_wait=0.05)
        queue = kombu.Queue("q")
        reading = Reading(connection, queue)
        send(connection, 1, queue)
        reading.until(1)
        server.kill()
        server.start()
        send(connection, 2, queue)
        reading.until_there_is(2)
        # Its consumer goes too: it is made again.
        connection.transport.broker.js.delete_consumer("KOMBU_v", "q-0")
        send(connection, 3, queue)
        reading.until_there_is(3)
        connection.release()


def test_streams_that_were_lost_are_made_again(connect):
    """As after the restart of a server that kept them in memory; the reader connects again too."""
    connection = connect()
    queue = kombu.Queue("q", kombu.Exchange("x"), routing_key="k")
    js, vhost = connection.transport.broker.js, connection.transport.broker.vhost
    bound = queue(connection.channel())
    bound.declare()
    for name in (f"KOMBU_{vhost}", f"KOMBU_{vhost}_TRANSIENT", f"KV_kombu-{vhost}"):
        js.delete_stream(name)
    producer = kombu.Producer(connection)
    producer.publish(
        1, exchange="", routing_key="q", retry=True, retry_policy={"max_retries": 3}, timeout=5
    )
    queue(connection.channel()).declare()
    producer.publish(2, exchange="x", routing_key="k")
    assert sorted(Reading(connection, queue).until(2)) == [1, 2]


def test_many_messages_all_come_once(connect):
    connection = connect()
    queue = kombu.Queue("q")
    producer = kombu.Producer(connection.channel())
    queue(connection.channel()).declare()
    for number in range(300):
        producer.publish(number, exchange="", routing_key="q")
    assert connection.transport.broker.size("q") == 300
    assert Reading(connection, queue, prefetch=4).until(300) == list(range(300))


def test_a_scheme_of_its_own_is_known_after_the_import(server, connect):
    connection = kombu.Connection(f"jetsync+{server.url}/scheme")
    try:
        simple = connection.SimpleQueue("s")
        simple.put({"a": 1})
        assert simple.get(timeout=5).payload == {"a": 1}
        simple.close()
    finally:
        nc = connection.transport.broker.nc
        connection.release()
        nc.close()


def test_a_server_that_is_not_there_is_a_connection_error():
    connection = kombu.Connection(
        "nats://127.0.0.1:1/v", transport="jetsync.contrib.kombu:Transport", connect_timeout=1
    )
    with pytest.raises(connection.recoverable_connection_errors):
        connection.transport.establish_connection()
    assert jetsync.ConnectError in connection.recoverable_connection_errors


def test_a_tls_url_asks_for_tls_and_hides_its_password(certificates):
    with NatsServer(config=certificates.server_config()) as secure:
        host = f"127.0.0.1:{secure.port}"
        options = {"ca_certs": str(certificates.ca)}
        for url in (f"tls://ann:pw@{host}/v", f"jetsync+tls://ann:pw@{host}/v"):
            connection = kombu.Connection(
                url,
                transport="jetsync.contrib.kombu:Transport",
                transport_options={"connect_timeout": 30},  # a busy machine refuses late
            )
            again = connection.clone()
            for one in (connection, again):
                assert one.as_uri() == f"tls://ann:**@{host}/v"
                assert one.ssl is True
                shown = {k: v for k, v in one.info().items() if k != "password"}
                assert "pw" not in str(shown)
                with pytest.raises(
                    jetsync.Error, match="certificate"
                ):  # TLS, of no known authority
                    one.transport.establish_connection()
        trusting = kombu.Connection(
            f"tls://{host}/v", transport="jetsync.contrib.kombu:Transport", ssl=options
        )
        trusting.connect()
        nc = trusting.transport.broker.nc
        assert nc.is_connected
        trusting.release()
        nc.close()
    plain = kombu.Connection(f"nats://{host}/v", transport="jetsync.contrib.kombu:Transport")
    assert plain.as_uri() == f"nats://{host}/v"
    assert not plain.ssl


# -- names and options, without a server -----------------------------------------------------------


@pytest.mark.parametrize("name", ["celery", "a-b_C9", "c@d.e", "", "ü", "a b", "=", "x.*.>"])
def test_every_name_is_one_token_and_comes_back(name):
    token = to_token(name)
    assert not set(token) & set(" .*>")
    assert token
    assert from_token(token) == name
    assert not set(bucket_token(name)) & set(" .*>=")


def test_a_url_and_options_become_those_of_a_connection(caplog):
    address = Address.of_url("tls://ann:s%40d@h:4443/shop")
    fields, store = read_options(address, {"ack_wait": 9, "timeout": 3}, default="d")
    assert fields == {
        "servers": "nats://h:4443", "user": "ann", "password": "s@d", "timeout": 3, "tls": True,
    }  # fmt: skip
    assert (store.name, store.ack_wait, store.storage) == ("shop", 9, "file")
    fields, store = read_options(Address.of_url("nats://t0k@[::1]"), {}, default="d")
    assert fields == {"servers": "nats://[::1]:4222", "token": "t0k"}
    assert store.name == "d"
    with caplog.at_level(logging.WARNING, logger="jetsync.contrib"):
        read_options(Address(), {"visibility_timeout": 9, "ack_wiat": 9}, default="d")
    assert "['ack_wiat']" in caplog.text


def test_certificates_are_always_checked():
    import ssl

    files = {"ca_certs": "ca.pem", "cert_reqs": ssl.CERT_REQUIRED}
    fields, _ = read_options(Address(tls=files), {}, default="d")
    assert fields["tls"] == jetsync.TLSConfig(ca_file="ca.pem")
    with pytest.raises(ConfigError, match="cert_reqs"):
        read_options(Address(tls={"cert_reqs": ssl.CERT_NONE}), {}, default="d")
