"""Services under bad conditions: forks, hostile requesters, missing rights, many threads."""

from __future__ import annotations

import os
import threading

import pytest

import jetsync
from jetsync.server import NatsServer
from jetsync.services import ServiceClient
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until

LONG = 20


def test_a_forked_child_gets_forked_errors_from_every_method(nc, asking, name):
    service = nc.add_service(name, "1.0.0")
    endpoint = service.add_endpoint("a", lambda r: b"x", subject=name)
    group = service.add_group("g")
    client = ServiceClient(nc)
    calls = [
        service.info,
        service.ping,
        service.stats,
        service.reset,
        service.stop,
        service.wait,
        endpoint.info,
        endpoint.stats,
        endpoint.reset,
        lambda: group.add_endpoint("b", lambda r: b""),
        lambda: client.call(name),
        lambda: client.ping(),
    ]
    nc.flush()
    child = os.fork()
    if child == 0:
        wrong = 0
        for call in calls:
            try:
                call()
                wrong += 1
            except jetsync.ForkedError:
                pass
            except BaseException:
                wrong += 1
        os._exit(wrong)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asking.request(name, timeout=LONG).data == b"x"


def test_odd_requests_hurt_no_other(nc, asking, client, name, url):
    """Reply subjects that nothing can be published to, bodies and headers of any kind."""
    told: list[BaseException] = []
    service = nc.add_service(name, "1.0.0", on_error=lambda error, request: told.append(error))
    service.add_endpoint("a", lambda r: r.data, subject=name)
    nc.flush()
    subject = name.encode()
    with RawClient(url) as raw:
        raw.handshake()
        for reply in (b"a.>", b"*", b"a..b", subject, b"$SRV.PING"):
            raw.send(b"PUB %s %s 1\r\nx\r\n" % (subject, reply))
        for verb in (b"PING", b"INFO", b"STATS"):
            raw.send(b"PUB $SRV.%s.%s a.> 3\r\n\xff\xfe\x00\r\n" % (verb, subject))
            raw.send(b"PUB $SRV.%s.%s 0\r\n\r\n" % (verb, subject))
        raw.send(b"HPUB %s 16 17\r\nNATS/1.0\r\n: \r\n\r\nx\r\n" % subject)
        raw.send(b"PING\r\n")
        raw.read_until(b"PONG")
    assert client.call(name, b"good").data == b"good"
    assert [one.id for one in client.ping(name)] == [service.id]
    assert {type(error) for error in told} <= {jetsync.ConfigError}


def test_an_endpoint_that_may_not_be_subscribed_is_told_of_and_the_others_work(name):
    told: list[jetsync.Event] = []
    config = {
        "authorization": {
            "users": [
                {"user": "a", "password": "p"},
                {
                    "user": "s",
                    "password": "p",
                    "permissions": {
                        "subscribe": {"deny": ["secret"]},
                        "publish": {"deny": [">"]},
                        "allow_responses": True,
                    },
                },
            ]
        }
    }
    with (
        NatsServer(jetstream=False, config=config) as server,
        jetsync.connect(server.url, user="s", password="p", on_error=told.append) as nc,
        jetsync.connect(server.url, user="a", password="p") as asking,
    ):
        service = nc.add_service(name, "1.0.0")
        service.add_endpoint("a", lambda r: b"x", subject="secret")
        service.add_endpoint("b", lambda r: b"y", subject="open")
        nc.flush()
        wait_until(lambda: told)
        assert isinstance(told[0].error, jetsync.PermissionsError)
        assert asking.request("open", timeout=LONG).data == b"y"
        assert [one.id for one in ServiceClient(asking).ping(name)] == [service.id]


def test_many_callers_get_their_own_answers(nc, asking, name):
    service = nc.add_service(name, "1.0.0", threads=4)
    service.add_endpoint("echo", lambda r: r.data, subject=name)
    nc.flush()
    wrong: list[object] = []

    def call(number):
        client = ServiceClient(asking, timeout=LONG)
        for n in range(200):
            data = b"%d.%d" % (number, n)
            if client.call(name, data).data != data:
                wrong.append(data)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG * 3)
    assert wrong == []
    (stats,) = service.stats().endpoints
    assert (stats.num_requests, stats.num_errors) == (1200, 0)


@pytest.mark.timed
def test_stopping_keeps_its_timeout_while_the_server_is_frozen(name, in_time):
    with NatsServer(jetstream=False) as server, jetsync.connect(server.url) as nc:
        service = nc.add_service(name, "1.0.0")
        for number in range(3):
            service.add_endpoint(f"e{number}", lambda r: b"")
        nc.flush()
        server.pause()
        with in_time(0.3), pytest.raises(jetsync.TimeoutError):
            service.stop(timeout=0.3)
        assert service.is_stopped
        server.resume()
