"""What every Python peer shares: its arguments, its clock, and how it answers the driver.

A peer is a program of its own, run as ``peer.py key=value ...``. It prepares, prints ``ready``,
waits for a line on its input, measures, and prints one line of JSON. ``peer.py list`` prints its
version and the workloads it has. Only the standard library is used: this runs in any peer's
environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import platform
import resource
import sys
import threading
import time
from typing import Any

TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE = resource.getpagesize()


def cpu_of(pid: int) -> float:
    """CPU seconds of another process so far (Linux)."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident() -> int:
    """Bytes of memory this process has now."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE


class Job:
    """The driver's wishes, and the figures."""

    def __init__(self, arguments: list[str]) -> None:
        given = dict(argument.split("=", 1) for argument in arguments)
        self.url = given["url"]
        self.workload = given["workload"].removesuffix("+busy")
        self.count = int(given["count"])
        self.size = int(given["size"])
        self.batch = int(given.get("batch", 500))
        self.point = int(given.get("point", 0))
        self.stream = given.get("stream", "")
        self.consumer = given.get("consumer", "")
        self.subject = given.get("subject", "")
        self.server = int(given["server"])
        self.payload = b"x" * self.size
        self.result: dict[str, Any] = {}
        self._busy = _start_busy_thread() if given["workload"].endswith("+busy") else None

    def start(self) -> None:
        """Tell the driver that everything is prepared, wait for its word, and start the clock."""
        print("ready", flush=True)
        sys.stdin.readline()
        self._server = cpu_of(self.server)
        self._cpu = self._own_cpu()
        self._wall = time.perf_counter()

    def stop(self, messages: int, touched: int) -> None:
        """Stop the clock; ``touched`` is the sum of the payloads' lengths."""
        wall = time.perf_counter() - self._wall
        self.result |= {
            "wall": wall,
            "cpu": self._own_cpu() - self._cpu,
            "server_cpu": cpu_of(self.server) - self._server,
            "messages": messages,
        }
        if touched != messages * self.size:
            raise SystemExit(f"touched {touched} bytes of {messages} messages of {self.size}")

    def latencies(self, seconds: list[float]) -> None:
        """Keep the middle and the tail of the single durations."""
        ordered = sorted(seconds)
        last = len(ordered) - 1
        self.result["p50_us"] = ordered[last // 2] * 1e6
        self.result["p99_us"] = ordered[int(last * 0.99)] * 1e6

    def _own_cpu(self) -> float:
        """CPU of this process, without the busy thread's."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        total = used.ru_utime + used.ru_stime
        if self._busy is not None and self._busy.ident is not None:
            total -= time.clock_gettime(time.pthread_getcpuclockid(self._busy.ident))
        return total


def _start_busy_thread() -> threading.Thread:
    def spin() -> None:
        number = 1
        while True:
            number = number * 1103515245 % 2147483647 + 1

    thread = threading.Thread(target=spin, name="busy", daemon=True)
    thread.start()
    return thread


def main(version: str, workloads: dict[str, Any]) -> None:
    """Run the workload that the arguments name; a coroutine function gets an event loop."""
    if sys.argv[1:] == ["list"]:
        python = f"{platform.python_implementation()} {platform.python_version()}"
        print(json.dumps({"version": version, "runs": python, "workloads": sorted(workloads)}))
        return
    job = Job(sys.argv[1:])
    work = workloads[job.workload]
    if inspect.iscoroutinefunction(work):
        with contextlib.suppress(ImportError):
            import uvloop  # where it is, it is there to be measured

            uvloop.install()
        asyncio.run(work(job))
    else:
        work(job)
    print(json.dumps(job.result), flush=True)
    os._exit(0)  # what closing costs is not measured, and a busy thread would slow it down
