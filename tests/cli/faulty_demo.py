"""A program: run the demo and break something in the middle of some steps.

``python faulty_demo.py OUT ROWS BATCH FAULT STEP...``: as soon as a third of a STEP is done, FAULT
happens: "server" kills the nats-server and starts it again, "worker" kills a Python worker.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from jetsync.cli.demo import Demo
from jetsync.cli.demo_command import DemoOptions
from jetsync.cli.output import Output
from jetsync.cli.progress import Lines

PATIENCE = 30.0


class FaultyProgress(Lines):
    """Shows progress as usual and lets the fault happen at its moment."""

    def __init__(self, fault: str, steps: list[str]) -> None:
        super().__init__()
        self._fault = fault
        self._of = 0
        self._current = ""
        self.to_come = steps
        self.demo: Demo | None = None

    def begin(self, step: str, total: int) -> None:
        self._current, self._of = step, total
        super().begin(step, total)

    def advance(self, done: int) -> None:
        super().advance(done)
        if self._current in self.to_come and done * 3 >= self._of:
            self.to_come.remove(self._current)
            kill_a_worker() if self._fault == "worker" else self._kill_the_server()

    def _kill_the_server(self) -> None:
        assert self.demo is not None
        assert self.demo.server is not None
        self.demo.server.kill()
        self.demo.server.start()


def kill_a_worker() -> None:
    """Kill a Python worker of Spark's executor, one at work rather than an idle one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        workers = spark_workers()
        busy = [pid for pid, state in workers.items() if state == "R"]
        if busy or (workers and time.monotonic() > deadline - PATIENCE / 2):
            os.kill((busy or list(workers))[0], signal.SIGKILL)
            return
        if time.monotonic() > deadline:
            raise AssertionError("Spark has no Python worker")
        time.sleep(0.002)  # between two looks


def spark_workers() -> dict[int, str]:
    """Return pid and state of the executor's Python workers: the forks of its daemons."""
    daemons: set[int] = set()
    processes: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if b"pyspark.daemon" in command and b"pyspark.worker" in command and is_mine(entry):
            processes[int(entry.name)] = (int(fields[1]), fields[0])
            daemons.add(int(entry.name))
    return {pid: state for pid, (parent, state) in processes.items() if parent in daemons}


def is_mine(process: Path) -> bool:
    """Whether a process inherited this run's environment; others may run Spark too."""
    mine = f"JETSYNC_TEST_RUN={os.environ['JETSYNC_TEST_RUN']}".encode()
    return mine in (process / "environ").read_bytes().split(b"\0")


def main(out: str, rows: str, batch: str, fault: str, *steps: str) -> int:
    progress = FaultyProgress(fault, [*steps])
    options = DemoOptions(out=Path(out), rows=int(rows), batch_rows=int(batch))
    progress.demo = Demo(options, progress)
    report = progress.demo.run()
    for view in report.views():
        Output().show(None, view)
    assert not progress.to_come, f"nothing happened in {progress.to_come}"
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
