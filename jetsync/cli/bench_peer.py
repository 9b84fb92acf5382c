"""The other side of a benchmark: a process of its own that publishes, and answers requests.

In the process that is measured it would take the processor time that it is to measure.
"""

from __future__ import annotations

import pickle
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jetsync.cli.failure import CommandError

if TYPE_CHECKING:
    from jetsync.client import ConnectOptions, Msg

__all__ = ["bench_peer", "publish_to"]

_ENDS_WITHIN = 5.0


@contextmanager
def bench_peer(options: ConnectOptions, prefix: str) -> Iterator[None]:
    """Run it below the subjects of a prefix. Blocks until it listens there."""
    import subprocess

    process = subprocess.Popen(
        [sys.executable, "-m", "jetsync.cli.bench_peer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump((options, prefix), process.stdin)
        process.stdin.flush()
        if not process.stdout.readline():
            raise CommandError("the other side of the benchmark could not be started.")
        yield
    finally:
        process.stdin.close()  # it ends at the end of its input
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def publish_to(subject: str, messages: int, size: int) -> bytes:
    """The message to ``PREFIX.publish`` that has it publish so many messages."""
    return f"{subject} {messages} {size}".encode()


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends it
    from jetsync.client import connect

    options, prefix = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one
    with connect(options=options) as nc:

        def publish(msg: Msg) -> None:
            subject, messages, size = msg.data.decode().split()
            data = b"x" * int(size)
            for _ in range(int(messages)):
                nc.publish(subject, data)

        nc.subscribe(f"{prefix}.publish", callback=publish)
        nc.subscribe(f"{prefix}.echo", callback=lambda msg: msg.respond(msg.data))
        nc.flush()
        print("ready", flush=True)
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
