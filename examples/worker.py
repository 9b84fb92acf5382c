"""A worker: jobs that fail are tried again with backoff, and what cannot be done is put aside.

It ends by itself when all jobs are settled; as ``python -m jetsync.worker worker:handle`` the same
function runs until SIGTERM, and finishes what it has begun.
"""

import sys
import threading
from collections import Counter

import jetsync
from jetsync.worker import Backoff, Outcome, Reject, Worker, task

JOBS = 60


@task(stream="JOBS", consumer="worker")
def handle(msg: jetsync.JetStreamMsg) -> None:
    """Do one job: every tenth is nonsense, and every fourth fails the first time."""
    number = int(msg.data)
    if number % 10 == 0:
        raise Reject("nonsense")  # no retry can succeed: a dead letter now
    if number % 4 == 0 and msg.metadata.num_delivered == 1:
        raise ConnectionError("the shop did not answer")


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"
    outcomes: Counter[str] = Counter()
    settled = threading.Event()

    def count(outcome: Outcome) -> None:  # one call at a time
        outcomes[outcome.kind] += 1
        if outcomes["done"] + outcomes["dead"] == JOBS:
            settled.set()

    with jetsync.connect(url) as nc:
        js = nc.jetstream()
        js.create_or_update_stream(name="JOBS", subjects=["jobs"])
        dead_letters = js.create_or_update_stream(name="DEAD", subjects=["dead.>"])
        js.publish_many(("jobs", str(number).encode()) for number in range(JOBS))
        consumer = js.create_or_update_consumer("JOBS", durable_name="worker", ack_wait=30)
        with Worker(
            consumer,
            handle,
            threads=4,
            retry=Backoff(0.1, tries=3),
            dead_letter="dead.{stream}",
            on_outcome=count,
        ):
            settled.wait(timeout=30)
        print("done", outcomes["done"], "retried", outcomes["retried"], "dead", outcomes["dead"])
        print("not acknowledged", consumer.info().num_ack_pending)
        first = dead_letters.get_msg(1).headers
        print(first["Dead-Letter-Reason"], first["Dead-Letter-Error"])


if __name__ == "__main__":
    main()
