"""Each call works with just the permissions that the guide lists for it, and uses all of these."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import jetsync
from jetsync.server import NatsServer
from jetsync.services import ServiceClient

GUIDE = Path(__file__).parents[2] / "docs/guide/permissions.md"
PATIENCE = 20.0
NAMES = {
    "<stream>": "S",
    "<consumer>": "c",
    "<subject>": "s.a",
    "<deliver>": "to.d",
    "<service>": "svc",
    "<endpoint>": "e.a",
}
LATER = datetime.now(timezone.utc) + timedelta(hours=1)


class Row(NamedTuple):
    publish: list[str]
    subscribe: list[str]


def subjects(cell: str) -> list[str]:
    found = re.findall(r"`([^`]+)`", cell)
    for name, value in NAMES.items():
        found = [subject.replace(name, value) for subject in found]
    return found


def rows() -> dict[str, Row]:
    """The rows of all tables of the page, by their first cell."""
    lines = [line for line in GUIDE.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.split("|")[1:4]] for line in lines]
    return {call: Row(subjects(publish), subjects(inbox)) for call, publish, inbox in cells}


def other_user(nc: Any) -> jetsync.Connection:
    """A connection that may do everything, for the other side of a request."""
    return jetsync.connect(nc.options.servers, user="admin", password="p")


def served(nc: Any) -> Any:
    """A service with one endpoint."""
    service = nc.add_service("svc", "1.0.0")
    service.add_endpoint("a", lambda request: b"answer", subject="e.a")
    nc.flush()
    return service


def add_service(nc: Any, js: Any) -> None:
    with served(nc) as service, other_user(nc) as asking:
        client = ServiceClient(asking, timeout=PATIENCE)
        assert client.call("e.a").data == b"answer"
        for ask in (client.ping, client.info, client.stats):
            for which in ((), ("svc",), ("svc", service.id)):
                assert len(ask(*which, max_responses=1)) == 1


def call_service(nc: Any, js: Any) -> None:
    with other_user(nc) as answering, served(answering):
        assert ServiceClient(nc, timeout=PATIENCE).call("e.a").data == b"answer"


def find_service(nc: Any, js: Any) -> None:
    client = ServiceClient(nc)
    with other_user(nc) as answering, served(answering):
        for ask in (client.ping, client.info, client.stats):
            assert len(ask("svc", max_responses=1, timeout=PATIENCE)) == 1


def take(sub: Any) -> None:
    """Fetch, iterate and consume; what the streams have buffered at their end goes back."""
    (msg,) = sub.fetch(1, timeout=PATIENCE)
    msg.ack_sync(timeout=PATIENCE)
    with sub.messages() as messages:
        messages.next(timeout=PATIENCE).ack()
    came = threading.Event()
    with sub.consume(lambda msg: came.set()):
        assert came.wait(PATIENCE)


def acknowledge(nc: Any, js: Any) -> None:
    sub = js.pull_subscribe(stream="S", consumer="c", timeout=0.2)
    batch = sub.fetch(5, timeout=PATIENCE)
    batch[0].in_progress()
    batch[0].ack()
    batch[1].nak()
    batch[2].term()
    batch[3].ack_sync(timeout=PATIENCE)
    assert len(batch[4].ack_next(timeout=PATIENCE)) == 1


def ordered(nc: Any, js: Any) -> None:
    with js.ordered_consumer("S", filter_subjects="s.a") as one:
        assert len(one.fetch(3, timeout=PATIENCE)) == 3


def ordered_push(nc: Any, js: Any) -> None:
    with js.subscribe(stream="S", ordered=True) as sub:
        sub.next(timeout=PATIENCE)


def publish_batch(nc: Any, js: Any) -> None:
    with js.batch() as batch:
        batch.add("s.a", b"")
        batch.add("s.a", b"")


def pause(nc: Any, js: Any) -> None:
    consumer = js.consumer("S", "c")
    consumer.pause(LATER)
    consumer.resume()


def direct(nc: Any, js: Any) -> None:
    stream = js.stream("S")
    assert stream.get_msg(1, direct=True).seq == 1
    assert len(stream.get_msgs(1, max_messages=2)) == 2
    assert len(stream.get_last_msgs("s.a")) == 1


def get(nc: Any, js: Any) -> None:
    stream = js.stream("S")
    assert stream.get_msg(1).seq == 1
    assert stream.get_last_msg("s.a").seq > 1


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "`nc.publish`": lambda nc, js: nc.publish("s.a", b""),
    "`nc.request`": lambda nc, js: nc.request("s.a", timeout=PATIENCE),
    "`nc.subscribe`": lambda nc, js: nc.subscribe("s.a"),
    "`nc.add_service` and its endpoints": add_service,
    "`ServiceClient.call`": call_service,
    "`ServiceClient.ping`, `info`, `stats` of one service": find_service,
    "`js.publish`": lambda nc, js: js.publish("s.a"),
    "`js.publish_async`": lambda nc, js: js.publish_async("s.a").result(PATIENCE),
    "`js.publish_many`": lambda nc, js: js.publish_many([("s.a", b"")] * 3),
    "`js.batch`": publish_batch,
    "`js.pull_subscribe(stream=, consumer=)` and its `fetch`, `messages`, `consume`": (
        lambda nc, js: take(js.pull_subscribe(stream="S", consumer="c", timeout=0.2))
    ),
    "`msg.ack`, `nak`, `term`, `in_progress`, `ack_sync`, `ack_next`": acknowledge,
    "`js.consumer` and its `fetch`, `messages`, `consume`": (
        lambda nc, js: take(js.consumer("S", "c"))
    ),
    "`js.create_consumer` with one filter": (
        lambda nc, js: js.create_consumer("S", durable_name="c", filter_subject="s.a")
    ),
    "`js.ordered_consumer` with one filter": ordered,
    "`js.subscribe(stream=, consumer=)` of a push consumer": (
        lambda nc, js: js.subscribe(stream="S", consumer="c").next(timeout=PATIENCE)
    ),
    "`js.subscribe(stream=, ordered=True)`": ordered_push,
    "`js.delete_consumer`": lambda nc, js: js.delete_consumer("S", "c"),
    "`js.consumers`": lambda nc, js: list(js.consumers("S")),
    "`consumer.pause`, `consumer.resume`": pause,
    "`js.create_stream`": lambda nc, js: js.create_stream(name="S", subjects=["s.>"]),
    "`js.update_stream`": lambda nc, js: js.update_stream(name="S", description="x"),
    "`js.delete_stream`": lambda nc, js: js.delete_stream("S"),
    "`js.stream` and its `info`": lambda nc, js: js.stream("S").info(),
    "`js.streams`": lambda nc, js: list(js.streams()),
    "`js.stream_name_by_subject`": lambda nc, js: js.stream_name_by_subject("s.a"),
    "`js.account_info`": lambda nc, js: js.account_info(),
    "`stream.purge`": lambda nc, js: js.stream("S").purge(),
    "`stream.get_msg`, `get_last_msg`": get,
    "`stream.get_msg(direct=True)`, `get_msgs`, `get_last_msgs`": direct,
    "`stream.delete_msg`": lambda nc, js: js.stream("S").delete_msg(2),
}

ROWS = rows()
MAKES = {
    "`js.create_stream`": "nothing",
    "`js.create_consumer` with one filter": "a stream",
    "`js.subscribe(stream=, consumer=)` of a push consumer": "a push consumer",
}
"""What is there before the call; all others find a stream with a pull consumer."""


ON_TRUST = {call for call in CALLS if "pull_subscribe" in call or "msg.ack" in call}
"""The lookup of the consumer is refused, which the guide says."""


def user_of(call: str) -> str:
    return f"u{list(ROWS).index(call)}"


@pytest.fixture(scope="module")
def server():
    users: list[dict[str, Any]] = [{"user": "admin", "password": "p"}]
    for call, row in ROWS.items():
        permissions = {
            "publish": {"allow": row.publish} if row.publish else {"deny": [">"]},
            "subscribe": {"allow": ["_INBOX.>", *row.subscribe]},
        }
        users.append({"user": user_of(call), "password": "p", "permissions": permissions})
    with NatsServer(config={"authorization": {"users": users}}) as one:
        yield one


@pytest.fixture
def admin(server, call):
    """The stream and the consumer that the call needs, and who sees what the user publishes."""
    with jetsync.connect(server.url, user="admin", password="p") as nc:
        js, before = nc.jetstream(), MAKES.get(call, "a consumer")
        if before != "nothing":
            js.create_stream(
                name="S", subjects=["s.>"], storage="memory", allow_direct=True, allow_atomic=True
            )
            js.publish_many([("s.a", b"%d" % n) for n in range(8)])
        if before == "a consumer":
            js.create_consumer("S", durable_name="c", filter_subject="s.a")
        if before == "a push consumer":
            js.create_consumer("S", durable_name="c", deliver_subject="to.d")
        yield nc
        for name in list(js.stream_names()):
            js.delete_stream(name)
        nc.close()


def test_each_row_of_the_guide_is_tried():
    assert list(ROWS) == list(CALLS)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_needs_what_the_guide_lists_for_it(server, admin, call):
    row = ROWS[call]
    # Not ">": a server keeps pulls whose inbox has a subscriber.
    taps = {subject: admin.subscribe(subject) for subject in row.publish}
    admin.flush()
    with jetsync.connect(server.url, user=user_of(call), password="p", timeout=PATIENCE) as nc:
        CALLS[call](nc, nc.jetstream())
        nc.flush()
        assert nc.last_error is None or (call in ON_TRUST and "INFO.S.c" in str(nc.last_error))
    admin.flush()
    assert [subject for subject, tap in taps.items() if not tap.pending_messages] == []
