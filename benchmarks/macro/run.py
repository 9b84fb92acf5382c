"""Measure jetsync side by side with its peers: ``python -m benchmarks.macro.run --help``.

Every measurement is a process of its own; rounds are interleaved and the order of the peers
rotates. Writes a JSON file and, from it, a page with tables and plots.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.macro import environments, report
from benchmarks.macro.environments import Peer
from benchmarks.macro.measure import Bench, FailedError
from benchmarks.macro.workloads import ALL, GROWTH, IN_MEMORY, SHORT, SIZES, Growth

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "bench"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    result: dict[str, Any] = {"machine": _machine(options.note), "rows": [], "failed": {}}
    if options.micro:
        result["micro"] = _micro(out)
    say("preparing the peers")
    peers = [environments.prepare(s, out / "peers") for s in environments.SPECS
             if s.name in options.peers or s.name == "raw"]  # fmt: skip
    for peer in peers:
        say(f"  {peer.spec.name}: {peer.version or 'left out, ' + peer.missing}")
    raw = peers[0]
    if raw.missing:
        say(f"the raw client does not build, and it sends for all peers: {raw.missing}")
        return 1
    result["peers"] = {
        p.spec.name: {"version": p.version, "runs": p.runs, "missing": p.missing} for p in peers
    }
    ready = [p for p in peers if not p.missing and p.spec.name in options.peers]
    if not ready:
        say("none of the wanted clients is here")
        return 1
    with Bench(raw.command) as bench:
        result["server"] = bench.server_version
        say(f"  {bench.server_version}")
        plan = Plan(bench, ready, options, started, result)
        plan.workloads()
        plan.growth()
    result["machine"]["load_after"] = os.getloadavg()
    result["seconds"] = time.monotonic() - started
    path = out / "result.json"
    lines = json.dumps(result).replace("}, {", "},\n{").replace('}, "', '},\n"')
    path.write_text(lines + "\n")  # a line for each measurement, so that a change is read as one
    page = report.write(result, out / "performance.md")
    say(f"wrote {path} and {page} in {result['seconds']:.0f} s")
    print(report.summary(result))
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Plan:
    """The order of the measurements, and what came out."""

    def __init__(
        self,
        bench: Bench,
        peers: list[Peer],
        options: argparse.Namespace,
        started: float,
        result: dict[str, Any],
    ) -> None:
        self._bench, self._peers, self._options = bench, peers, options
        self._started, self._result = started, result

    def workloads(self) -> None:
        """Rounds outside, so that a run that is cut short has whole rounds of everything."""
        options, turn = self._options, 0
        for number in range(1, options.rounds + 1):
            for name in options.workloads:
                if self._late(0.7 if options.growth else 1.0):  # some is kept for the rest
                    return
                workload = ALL[name]
                for size in [128] if workload.one_size else options.sizes:
                    turn += 1
                    peers = self._peers[turn % len(self._peers) :]
                    peers += self._peers[: turn % len(self._peers)]
                    for peer in peers:
                        self._one(peer, name, size, number)

    def growth(self) -> None:
        """How costs grow, for each client that has such a call."""
        options = self._options
        if not options.growth:
            return
        found = [
            environments.prepare(spec, options.out / "peers")
            for spec in environments.GROWTH
            if spec.name in options.peers
        ]
        peers = [peer for peer in found if not peer.missing]
        self._result["growth"] = []
        for number in range(1, options.rounds + 1):
            for name in options.growth:
                growth = GROWTH[name]
                for point in growth.points:
                    for peer in peers:
                        if self._late():
                            return
                        if name in peer.workloads:
                            self._grow(peer, growth, point, number)

    def _grow(self, peer: Peer, growth: Growth, point: int, number: int) -> None:
        say(f"round {number}: {growth.name} at {point}, {peer.spec.name}")
        scale = self._options.scale * (0.1 if peer.spec.slow else 1.0)
        try:
            figures = self._bench.grow(peer, growth, point, scale)
        except FailedError as error:
            self._result["failed"][f"{growth.name} at {point}, {peer.spec.name}"] = str(error)
            return
        key = {"growth": growth.name, "point": point, "peer": peer.spec.name, "round": number}
        self._result["growth"].append({**key, **figures})

    def _one(self, peer: Peer, name: str, size: int, number: int) -> None:
        workload = ALL[name]
        if workload.base not in peer.workloads:
            return
        if workload.busy and not peer.spec.program.endswith(".py"):
            return  # a Python thread needs a Python program
        if workload.name.endswith(IN_MEMORY) and peer.spec.name != "jetsync":
            return  # compared with itself only
        count = workload.messages(size, self._options.scale, peer.spec.slow)
        say(f"round {number}: {name}, {size} B, {peer.spec.name}, {count} messages")
        try:
            figures = self._bench.run(peer, workload, size, count)
        except FailedError as error:
            say(f"  failed: {error}")
            self._result["failed"][f"{name}, {size} B, {peer.spec.name}"] = str(error)
            return
        key = {"workload": name, "size": size, "peer": peer.spec.name, "round": number}
        self._result["rows"].append({**key, **figures})

    def _late(self, share: float = 1.0) -> bool:
        late: bool = time.monotonic() - self._started > self._options.budget * share
        if late and "cut" not in self._result:
            self._result["cut"] = True
            say("the time is up: the rest is left out (--budget)")
        return late


def _machine(note: str) -> dict[str, Any]:
    model = "unknown processor"
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": model,
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "commit": _commit(),
        "load_before": os.getloadavg(),
        "note": note,
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _micro(out: Path) -> dict[str, Any]:
    say("micro benchmarks")
    file = out / "micro.json"
    command = [sys.executable, "-m", "pytest", "benchmarks/micro", "--benchmark-only", "-q", "-q"]
    done = subprocess.run(
        [*command, "--benchmark-max-time=0.3", f"--benchmark-json={file}"],
        check=False, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        say(done.stdout[-2000:])
        return {}
    figures = json.loads(file.read_text())["benchmarks"]
    return {f["name"]: {"median_ns": f["stats"]["median"] * 1e9 / 1000} for f in figures}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=...", description=__doc__)
    peers = [spec.name for spec in environments.SPECS]
    parser.add_argument("--workloads", nargs="+", metavar="NAME", choices=sorted(ALL))
    parser.add_argument("--growth", nargs="*", metavar="NAME", choices=sorted(GROWTH))
    parser.add_argument("--peers", nargs="+", default=peers, choices=peers)
    parser.add_argument("--sizes", nargs="+", type=int, metavar="BYTES")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--scale", type=float, help="times the usual number of messages")
    parser.add_argument("--budget", type=float, help="seconds after which nothing new is begun")
    parser.add_argument("--full", action="store_true", help="everything, all sizes, five rounds")
    parser.add_argument("--no-micro", dest="micro", action="store_false")
    parser.add_argument("--note", default="", help="a sentence for the page, about this run")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for the results")
    options = parser.parse_args(arguments)
    chosen = options.workloads is not None or options.growth is not None
    full = options.full
    options.micro = options.micro and (full or not chosen)
    if options.workloads is None:
        options.workloads = list(ALL) if full else [] if chosen else list(SHORT)
    if options.growth is None:
        options.growth = list(GROWTH) if full or not chosen else []
    elif not options.growth:  # --growth without a name
        options.growth = list(GROWTH)
    options.sizes = options.sizes or (list(SIZES) if full else [128])
    options.rounds = options.rounds or (5 if full else 3)
    options.scale = options.scale or (1.0 if full else 0.25)
    options.budget = options.budget or (6 * 3600 if full or chosen else 420)
    return options


if __name__ == "__main__":
    sys.exit(main())
