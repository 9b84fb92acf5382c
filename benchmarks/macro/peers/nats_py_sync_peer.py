"""nats-py-sync, which calls nats-py's coroutines one by one: the only other synchronous client.

It has no callbacks, no consumers and no publishing to streams.
"""

from __future__ import annotations

import time
from importlib.metadata import version

import nats_sync
from meter import Job, main


def publish(job: Job) -> None:
    nc, data = nats_sync.connect(job.url), job.payload
    job.start()
    for _ in range(job.count):
        nc.publish("unused", data)
    nc._loop.run_until_complete(nc._nc.flush(60))  # it has no flush of its own
    job.stop(job.count, job.count * len(data))


def sub_next(job: Job) -> None:
    nc = nats_sync.connect(job.url)
    sub = nc.subscribe(job.subject)
    nc._loop.run_until_complete(nc._nc.flush(60))
    sub._sub._pending_bytes_limit = sub._sub._pending_msgs_limit = 0  # no message is dropped
    job.start()
    touched = 0
    for _ in range(job.count):
        touched += len(sub.recv(60).data)
    job.stop(job.count, touched)


def request(job: Job) -> None:
    nc = nats_sync.connect(job.url)
    durations = []
    now = time.perf_counter
    nc.request(job.subject, job.payload, 60)
    job.start()
    for _ in range(job.count):
        before = now()
        nc.request(job.subject, job.payload, 60)
        durations.append(now() - before)
    job.stop(job.count, job.count * job.size)
    job.latencies(durations)


if __name__ == "__main__":
    main(
        f"nats-py-sync {version('nats-py-sync')}",
        {"publish": publish, "sub_next": sub_next, "request": request},
    )
