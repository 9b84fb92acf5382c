"""The Celery application of the tests: what a worker process runs. Its broker is in NATS_URL."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime, timezone

from celery import Celery


def make_app(url: str, vhost: str) -> Celery:
    """An application whose broker is ``url`` with that virtual host; results are beside it."""
    made = Celery("tests", broker=f"{url}/{vhost}", backend=f"jetsync+{url}/{vhost}-results")
    made.conf.update(
        broker_transport="jetsync.contrib.kombu:Transport",
        broker_transport_options={
            "ack_wait": float(os.environ.get("ACK_WAIT", "30")),
            "storage": "memory",
            "name": vhost,
        },
        broker_connection_retry_on_startup=True,
        result_backend_transport_options={"storage": "memory"},
        worker_prefetch_multiplier=1,
        worker_lost_wait=0.2,
        task_create_missing_queues=True,
    )
    return made


app = make_app(
    os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), os.environ.get("VHOST", "tests")
)


def note(text: object) -> None:
    """Append a line to the record of what the workers did."""
    with open(os.environ["RECORD"], "a") as file:
        file.write(f"{text}\n")


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def record(text: str) -> str:
    note(text)
    return text


@app.task
def started() -> float:
    return datetime.now(timezone.utc).timestamp()


@app.task(bind=True, max_retries=5)
def shaky(self, failures: int) -> int:
    """Fails so often before it succeeds."""
    if self.request.retries < failures:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def fragile(self, text: str, seconds: float) -> str:
    """Notes its begin and its end; acknowledged when it is done."""
    note(f"begin {text} {os.getpid()}")
    time.sleep(seconds)  # the work
    note(f"end {text}")
    return text


@app.task(acks_late=True, reject_on_worker_lost=True)
def die_once(text: str) -> str:
    """Kills the process that runs it, the first time."""
    with open(os.environ["RECORD"]) as file:
        if f"died {text}\n" in file:
            note(f"survived {text}")
            return text
    note(f"died {text}")
    os.kill(os.getpid(), signal.SIGKILL)
    return text
