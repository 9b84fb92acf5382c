"""Two processes share the durable of a queue; one of them is killed, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading

import jetsync
from jetsync.server import NatsServer
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

TOTAL = scaled(2_000, 50_000)


class Member:
    """One process; what it says is read by a thread."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.push_member", url, "work", "q"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = threading.Event()
        self.done: list[int] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == "ready\n":
                self.ready.set()
            elif line.endswith("\n"):
                self.done.append(int(line))

    def end(self) -> None:
        """End its input, which lets it drain, or collect it if it was killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self._reader.join(60)
        self.process.stdout.close()


def test_a_killed_member_of_a_queue_loses_nothing_and_the_other_goes_on(record_figure):
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="W", subjects=["work"], storage="memory")
        one, two = Member(server.url), Member(server.url)
        try:
            assert one.ready.wait(60)
            assert two.ready.wait(60)
            half = TOTAL // 2
            js.publish_many(("work", b"%d" % n) for n in range(half))
            wait_until(lambda: len(one.done) > 20 and len(two.done) > 20, timeout=60)
            one.process.kill()
            js.publish_many(("work", b"%d" % n) for n in range(half, TOTAL))
            wait_until(
                lambda: js.consumer("W", "q").cached_info.ack_floor.stream_seq == TOTAL, timeout=240
            )
            info = js.consumer("W", "q").cached_info
            assert info.num_ack_pending == info.num_pending == 0
        finally:
            one.process.kill()
            one.end()
            two.end()
        again = set(one.done) & set(two.done)
        lost = set(range(TOTAL)) - set(one.done) - set(two.done)
        record_figure("queue: done by the killed member", len(one.done), "messages")
        record_figure("queue: done again after they were confirmed", len(again), goal="0")
        record_figure("queue: not seen by either", len(lost), goal="<= 1")
        # Confirmed before it was printed: what the killed one had confirmed did not come again.
        assert not again
        # It may have been killed between confirming a message and printing it.
        assert len(lost) <= 1
        assert len(one.done) == len(set(one.done))
        assert len(two.done) == len(set(two.done))
        assert two.process.returncode == 0
        # The member that made the durable may be gone: it belongs to the group.
        assert list(js.consumer_names("W")) == ["q"]
