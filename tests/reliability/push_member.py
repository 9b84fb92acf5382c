"""A member of a queue group in a process of its own: ``python -m tests.reliability.push_member``.

Arguments: the server's URL, the subject and the name of the queue. Prints "ready", then the number
in each message after it was acknowledged, until it is killed or its input ends.
"""

from __future__ import annotations

import sys

import jetsync


def main(url: str, subject: str, queue: str) -> None:
    def work(msg: jetsync.JetStreamMsg) -> None:
        msg.ack_sync(timeout=30)
        print(int(msg.data), flush=True)

    with jetsync.connect(url) as nc:
        nc.jetstream().subscribe(
            subject, queue=queue, callback=work, manual_ack=True, ack_wait=5, max_ack_pending=50
        )
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:4])
