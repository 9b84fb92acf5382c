"""What the guide lists for users of Celery is enough, and all of it is used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import celery
import kombu
import pytest

import jetsync
from jetsync.server import NatsServer
from tests.contrib.reading import Reading, send

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "celery.md"
NAMES = {"<vhost>": "shop", "<bucket>": "results"}


def listed() -> list[str]:
    """The subjects of the guide's table."""
    table = GUIDE.read_text().split("## Permissions")[1].split("##")[0]
    subjects = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    for name, value in NAMES.items():
        subjects = [subject.replace(name, value) for subject in subjects]
    return subjects


@pytest.fixture
def server() -> Iterator[NatsServer]:
    config = f"""
        jetstream {{}}
        authorization {{ users: [
            {{ user: all, password: x }}
            {{ user: some, password: x, permissions: {{
                publish: {json.dumps(listed())}, subscribe: ["_INBOX.>"] }} }}
        ] }}
    """
    with NatsServer(config=config) as one:
        yield one


def connected(server: NatsServer, user: str, **options: object) -> kombu.Connection:
    url = server.url.replace("//", f"//{user}:x@")
    made = kombu.Connection(
        f"{url}/shop", transport="jetsync.contrib.kombu:Transport", transport_options=options
    )
    made.connect()
    return made


def backend(server: NatsServer, user: str, **options: object) -> celery.Celery:
    url = server.url.replace("//", f"//{user}:x@")
    return celery.Celery(
        "tests",
        backend=f"jetsync+{url}/results",
        set_as_current=False,
        result_backend_transport_options=options,
    )


def use_queues(some: kombu.Connection) -> None:
    """Everything that applications, workers and monitors do with queues."""
    tasks = kombu.Queue("tasks", kombu.Exchange("tasks"), routing_key="tasks")
    events = kombu.Queue("events", kombu.Exchange("events", type="fanout"), auto_delete=True)
    send(some, {"n": 1}, tasks)
    soon = datetime.now(timezone.utc) + timedelta(seconds=0.5)
    send(some, {"n": 2}, "tasks", headers={"eta": soon.isoformat(), "id": "2", "task": "t"})
    assert Reading(some, tasks).until(2) == [{"n": 1}, {"n": 2}]
    reading = Reading(some, events)
    some.Producer().publish({"n": 3}, exchange="events", declare=[events.exchange])
    assert reading.until(1) == [{"n": 3}]
    for queue in (tasks, events):
        queue(some.channel()).purge()
        queue(some.channel()).delete()


def use_results(app: celery.Celery) -> None:
    """Everything that is done with results, waiting for one included."""
    later = app.AsyncResult("later")
    app.backend.store_result("one", 1, "SUCCESS")
    assert app.backend.get_task_meta("one")["result"] == 1
    app.backend.forget("one")
    with pytest.raises(celery.exceptions.TimeoutError):
        later.get(timeout=0.2)
    app.backend.store_result("later", 2, "SUCCESS")
    assert later.get(timeout=20) == 2


def test_what_the_guide_lists_is_enough_and_all_of_it_is_used(
    server: NatsServer, caplog: pytest.LogCaptureFixture
):
    with connected(server, "all") as connection:
        connection.channel()
        connection.transport.broker.nc.close()
    made = backend(server, "all")
    made.backend.store_result("before", 0, "SUCCESS")
    jetsync.shared_connection(**made.backend.fields).close()
    with jetsync.connect(server.url, user="all", password="x") as nc:
        seen: set[str] = set()
        nc.subscribe(">", callback=lambda msg: seen.add(msg.subject))
        nc.flush()
        with connected(server, "some", create=False) as some:
            use_queues(some)
            some.transport.broker.nc.close()
        app = backend(server, "some", create=False)
        use_results(app)
        jetsync.shared_connection(**app.backend.fields).close()
        nc.flush()
        nc.drain()
    assert unused(seen) == []
    assert "Permissions" not in caplog.text


def unused(seen: set[str]) -> list[str]:
    """The listed subjects to which nothing was published."""
    return [
        one
        for one in listed()
        if not any(s == one or (one.endswith(">") and s.startswith(one[:-1])) for s in seen)
    ]
