"""jetsync, how its cost grows: one number is ``point``, everything else stays."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

from jetsync_peer import take, unlimited
from meter import Job, main, resident

import jetsync


def subscriptions(job: Job) -> None:
    nc = jetsync.connect(job.url)
    subs = [
        nc.subscribe(f"{job.subject}.{n}", pending_messages_limit=0, pending_bytes_limit=0)
        for n in range(job.point)
    ]
    nc.flush()
    seen = touched = 0
    job.start()
    for n, sub in enumerate(subs):
        share = job.count // job.point + (n < job.count % job.point)
        for _ in range(share):
            touched += len(sub.next(timeout=60).data)
        seen += share
    job.stop(seen, touched)


def on_threads(job: Job, work: Callable[[int], None]) -> int:
    """Run ``work(share)`` on ``job.point`` threads within the measured time."""
    share = job.count // job.point
    threads = [threading.Thread(target=work, args=(share,)) for _ in range(job.point)]
    job.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return share * job.point


def request_threads(job: Job) -> None:
    nc = jetsync.connect(job.url)

    def work(share: int) -> None:
        for _ in range(share):
            nc.request(job.subject, job.payload, timeout=60)

    done = on_threads(job, work)
    job.stop(done, done * job.size)


def publish_threads(job: Job) -> None:
    nc = jetsync.connect(job.url)

    def work(share: int) -> None:
        for _ in range(share):
            nc.publish("nobody", job.payload)

    done = on_threads(job, work)
    nc.flush()
    job.stop(done, done * job.size)


def outstanding(job: Job) -> None:
    js = jetsync.connect(job.url).jetstream(max_pending=job.point)
    job.start()
    for _ in range(job.count):
        js.publish_async(job.subject, job.payload)
    js.publish_async_wait(timeout=120)
    job.stop(job.count, job.count * job.size)


def size(job: Job) -> None:
    _nc, sub = unlimited(job)
    take(job, sub)


def many_subscriptions(job: Job) -> None:
    nc = jetsync.connect(job.url)
    job.start()
    subs = [nc.subscribe(f"many.{n}") for n in range(job.point)]
    nc.flush(timeout=60)
    job.stop(len(subs), len(subs) * job.size)


def many_memory(job: Job) -> None:
    nc = jetsync.connect(job.url)
    nc.subscribe("many").unsubscribe()
    gc.collect()
    before = resident()
    job.start()
    subs = [nc.subscribe(f"many.{n}") for n in range(job.point)]
    nc.flush(timeout=60)
    job.stop(len(subs), len(subs) * job.size)
    job.result["bytes_each"] = (resident() - before) / job.point


def among_many(job: Job) -> None:
    nc, sub = unlimited(job)
    others = [nc.subscribe(f"many.{n}") for n in range(job.point)]
    nc.flush(timeout=60)
    take(job, sub)
    del others


if __name__ == "__main__":
    main(
        f"jetsync {jetsync.__version__}",
        {
            "subscriptions": subscriptions,
            "request_threads": request_threads,
            "publish_threads": publish_threads,
            "outstanding": outstanding,
            "size": size,
            "many_subscriptions": many_subscriptions,
            "many_memory": many_memory,
            "among_many": among_many,
        },
    )
