"""The documents of a service are those of ADR-32, field by field, and those of others are read."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import jetsync
from jetsync.services import EndpointInfo, ServiceClient, ServiceInfo, ServicePing, ServiceStats
from tests.harness.links import straight
from tests.harness.older import older_server

LONG = 20
PEER = Path(__file__).parent / "nats_py_peer.py"
IDENTITY = {"type": str, "name": str, "id": str, "version": str, "metadata": dict}
FIELDS = {
    "PING": IDENTITY,
    "INFO": IDENTITY | {"description": str, "endpoints": list},
    "STATS": IDENTITY | {"started": str, "endpoints": list},
}
ENDPOINT = {
    "INFO": {"name": str, "subject": str, "queue_group": str, "metadata": dict},
    "STATS": {
        "name": str,
        "subject": str,
        "queue_group": str,
        "num_requests": int,
        "num_errors": int,
        "last_error": str,
        "processing_time": int,
        "average_processing_time": int,
        "data": type(None),
    },
}
"""The fields of ADR-32 and their types in JSON."""


def types(document):
    return {name: type(value) for name, value in document.items()}


def offer(nc, name, **fields):
    """A service with three endpoints, one of each kind of queue group."""
    service = nc.add_service(name, "1.2.3", **fields)
    service.add_endpoint(
        "echo",
        lambda r: r.respond(r.data, headers={"Heard": r.headers["Say"]}),
        subject=f"{name}.echo",
        metadata={"m": "n"},
    )
    group = service.add_group(name, queue_group=None)
    group.add_endpoint("refuse", lambda r: r.respond_error(404, "no such thing", b"details"))
    group.add_endpoint("own", lambda r: b"", queue_group="mine")
    nc.flush()
    return service


@pytest.mark.parametrize("verb", FIELDS)
def test_every_field_of_the_documents(nc, asking, client, name, verb):
    service = offer(nc, name, description="ours", metadata={"a": "b"})
    client.call(f"{name}.echo", headers={"Say": "x"})
    with pytest.raises(jetsync.ServiceError):
        client.call(f"{name}.refuse")
    found = json.loads(asking.request(f"$SRV.{verb}.{name}", timeout=LONG).data)
    assert types(found) == FIELDS[verb]
    assert found["type"] == f"io.nats.micro.v1.{verb.lower()}_response"
    assert (found["name"], found["version"]) == (name, "1.2.3")
    assert (found["id"], found["metadata"]) == (service.id, {"a": "b"})
    assert re.fullmatch(r"[0-9A-Za-z]{22}", service.id)
    if verb == "PING":
        assert found == service.ping().to_dict()
        return
    assert [types(endpoint) for endpoint in found["endpoints"]] == [ENDPOINT[verb]] * 3
    assert [endpoint["queue_group"] for endpoint in found["endpoints"]] == ["q", "", "mine"]
    names = [(endpoint["name"], endpoint["subject"]) for endpoint in found["endpoints"]]
    assert names == [(n, f"{name}.{n}") for n in ("echo", "refuse", "own")]
    if verb == "INFO":
        assert found == service.info().to_dict()
        assert found["description"] == "ours"
        assert [endpoint["metadata"] for endpoint in found["endpoints"]] == [{"m": "n"}, {}, {}]
        return
    assert found == service.stats().to_dict()
    started = datetime.fromisoformat(found["started"].replace("Z", "+00:00"))
    assert timedelta(0) <= datetime.now(timezone.utc) - started < timedelta(minutes=5)
    assert found["started"].endswith("Z")
    echo, refuse, own = found["endpoints"]
    assert (echo["num_requests"], echo["num_errors"], echo["last_error"]) == (1, 0, "")
    assert (refuse["num_requests"], refuse["num_errors"]) == (1, 1)
    assert refuse["last_error"] == "404:no such thing"
    assert echo["processing_time"] == echo["average_processing_time"] > 0
    assert (own["num_requests"], own["average_processing_time"]) == (0, 0)


def test_a_service_without_anything_has_empty_fields_not_null(nc, asking, name):
    nc.add_service(name, "1.0.0")
    nc.flush()
    found = json.loads(asking.request(f"$SRV.INFO.{name}", timeout=LONG).data)
    assert (found["description"], found["metadata"], found["endpoints"]) == ("", {}, [])


def test_statistics_add_up_and_start_again(nc, client, name):
    service = offer(nc, name, stats_handler=lambda endpoint: {"of": endpoint.name})
    for _ in range(7):
        client.call(f"{name}.own")
    own = service.stats().endpoints[2]
    assert own.num_requests == 7
    assert own.average_processing_time == own.processing_time // 7
    assert own.data == {"of": "own"}
    assert client.stats(name) == [service.stats()]
    service.reset()
    own = service.stats().endpoints[2]
    assert (own.num_requests, own.num_errors, own.last_error, own.processing_time) == (0, 0, "", 0)


@pytest.mark.parametrize("handler", [lambda endpoint: 1 // 0, lambda endpoint: object()])
def test_a_stats_handler_that_fails_hides_no_statistics(nc, client, name, handler):
    told: list[BaseException] = []
    offer(nc, name, stats_handler=handler, on_error=lambda error, request: told.append(error))
    (found,) = client.stats(name)
    assert [endpoint.data for endpoint in found.endpoints] == [None] * 3
    assert {type(error) for error in told} <= {ZeroDivisionError, TypeError}
    assert len(told) == 3


# -- discovery -----------------------------------------------------------------------------------


def test_instances_are_found_by_name_and_by_id(nc, client, name):
    first, second = nc.add_service(name, "1.0.0"), nc.add_service(name, "1.1.0")
    nc.flush()
    ours = {first.id, second.id}
    assert ours <= {one.id for one in client.ping()}
    assert {one.id for one in client.ping(name)} == ours
    assert {one.version for one in client.info(name)} == {"1.0.0", "1.1.0"}
    assert client.info(name, second.id) == [second.info()]
    assert len(client.ping(name, max_responses=1)) == 1
    assert client.ping("nothing-of-this-name") == []
    assert client.stats(name, "NoSuchInstance") == []
    with pytest.raises(jetsync.ConfigError, match="name"):
        client.ping(id=first.id)
    with pytest.raises(jetsync.ConfigError, match="service"):
        client.ping("a.b")


def test_a_handler_that_is_busy_hides_no_service(nc, asking, client, name):
    go_on = threading.Event()
    service = nc.add_service(name, "1.0.0")
    service.add_endpoint("slow", lambda r: b"%d" % go_on.wait(LONG), subject=name)
    nc.flush()
    inbox = asking.new_inbox()
    with asking.subscribe(inbox) as sub:
        asking.publish(name, reply=inbox)
        assert [one.id for one in client.ping(name)] == [service.id]
        assert client.info(name) == [service.info()]
        go_on.set()
        assert sub.next(timeout=LONG).data == b"1"


def test_discovery_may_be_below_another_prefix(nc, asking, name):
    nc.add_service(name, "1.0.0", prefix=f"{name}.srv")
    nc.flush()
    assert len(ServiceClient(asking, prefix=f"{name}.srv").ping(name)) == 1
    assert ServiceClient(asking).ping(name) == []


def test_odd_answers_hide_no_good_ones(nc, asking, client, name, caplog):
    """Any responder may say anything; what is no document is left out."""
    good = nc.add_service(name, "1.0.0")
    odd = [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b'{"type": 7}',
        b'{"type": "io.nats.micro.v1.ping_response"}',
        b'{"type": "io.nats.micro.v1.ping_response", "name": 1, "id": "a", "version": "b"}',
        b'{"type": "io.nats.micro.v1.info_response", "name": "a", "id": "a", "version": "b"}',
        b'{"type": "io.nats.micro.v1.ping_response", "name": "a", "id": "a", "version": "b", '
        b'"metadata": [1]}',
        b"[" * 100_000,
        b"\xff\xfe\x1b[2J",
    ]

    def answer(msg):
        for data in odd:
            msg.respond(data)

    asking.subscribe(f"$SRV.PING.{name}", callback=answer)
    asking.flush()
    nc.flush()
    assert client.ping(name, max_responses=len(odd) + 1) == [good.ping()]
    assert caplog.text.count("is left out") == len(odd)
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("2024-01-02T03:04:05.123456789Z", 123456), ("2024-01-02T05:04:05+02:00", 0)],
)
def test_documents_of_other_libraries_are_read(text, microseconds):
    """With null where there is nothing, nanoseconds, and fields of a later version."""
    sent = {
        "type": "io.nats.micro.v1.stats_response",
        "name": "n",
        "id": "i",
        "version": "1.0.0",
        "metadata": None,
        "started": text,
        "later": 1,
        "endpoints": None,
    }
    found = ServiceStats.from_json(json.dumps(sent).encode())
    assert found.started == datetime(2024, 1, 2, 3, 4, 5, microseconds, timezone.utc)
    assert (found.metadata, found.endpoints) == ({}, ())


def test_an_error_without_a_number_is_an_error(nc, asking, client, name):
    nc.subscribe(name, callback=lambda m: m.respond(b"x", {"Nats-Service-Error-Code": "many"}))
    nc.flush()
    with pytest.raises(jetsync.ServiceError) as caught:
        client.call(name)
    assert (caught.value.code, caught.value.data) == (0, b"x")


def test_an_old_server_has_services_too(name):
    with (
        older_server("2.10.25") as server,
        jetsync.connect(server.url) as nc,
        nc.add_service(name, "1.0.0") as service,
    ):
        service.add_endpoint("a", lambda r: r.data, subject=name)
        nc.flush()
        client = ServiceClient(nc, timeout=LONG)
        assert client.call(name, b"x").data == b"x"
        assert client.info() == [service.info()]


# -- nats-py -------------------------------------------------------------------------------------


def peer(role, url, name):
    """The command of the peer. Developers whose environment is older than it may go without."""
    if importlib.util.find_spec("nats") is None:
        pytest.skip("nats-py is not installed; the documents are compared without it")
    return [sys.executable, str(PEER), role, straight(url), name]


def test_a_service_of_nats_py_is_found_and_called(asking, client, url, name):
    with subprocess.Popen(
        peer("serve", url, name), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        msg = client.call(f"{name}.echo", b"data", headers={"Say": "hello"})
        assert (msg.data, msg.headers["Heard"]) == (b"data", "hello")
        with pytest.raises(jetsync.ServiceError) as caught:
            client.call(f"{name}.refuse")
        refused = caught.value
        assert (refused.code, refused.description) == (404, "no such thing")
        with pytest.raises(jetsync.ServiceError, match="broken"):
            client.call(f"{name}.fail")
        (ping,) = client.ping(name)
        (info,) = client.info(name)
        (stats,) = client.stats(name, ping.id)
        assert (ping.version, ping.metadata) == ("2.1.0", {"k": "v"})
        assert info == ServiceInfo(
            name,
            ping.id,
            "2.1.0",
            {"k": "v"},
            "theirs",
            (
                EndpointInfo("echo", f"{name}.echo", "q", {}),
                EndpointInfo("refuse", f"{name}.refuse", "g", {"m": "n"}),
                EndpointInfo("fail", f"{name}.fail", "g", {}),
            ),
        )
        assert isinstance(ping, ServicePing)
        assert [e.num_requests for e in stats.endpoints] == [1, 1, 1]
        assert stats.endpoints[2].num_errors == 1
        process.stdin.close()
        assert process.wait(LONG) == 0


def test_nats_py_finds_and_calls_a_service(nc, url, name):
    service = offer(nc, name, description="ours", metadata={"a": "b"})
    before = service.stats().to_dict()
    done = subprocess.run(
        peer("ask", url, name), capture_output=True, text=True, timeout=60, check=True
    )
    found = json.loads(done.stdout)
    assert found["PING"] == service.ping().to_dict()
    assert found["INFO"] == service.info().to_dict()
    started = before["started"][:-4] + "Z"  # it writes milliseconds
    assert found["STATS"] == before | {"started": started}
    assert found["echo"] == ["data", {"Heard": "a"}]
    assert found["refuse"] == [
        "details",
        {"Nats-Service-Error": "no such thing", "Nats-Service-Error-Code": "404"},
    ]
