"""One server, its streams, and one measurement after the other."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import jetsync
from benchmarks.macro.environments import Peer, surroundings
from benchmarks.macro.workloads import FETCH, IN_MEMORY, Growth, Storage, Workload
from jetsync.server import NatsServer

_PATIENCE = 180.0
_LARGE = {"max_pending": 2 * 2**30, "max_payload": 2 * 2**20}
"""A sender that is faster than its receiver must not be cut off."""


class FailedError(Exception):
    """A peer did not finish; the text says what it said."""


class Bench:
    """Runs peers against a server of its own. ``raw`` is the raw client's command."""

    def __init__(self, raw: Sequence[str]) -> None:
        self._raw = list(raw)
        self._server = NatsServer(config=_LARGE)
        self._stored: dict[str, int] = {}
        self._number = 0

    def __enter__(self) -> Bench:
        self._server.start()
        self._nc = jetsync.connect(self._server.url)
        self._js = self._nc.jetstream(timeout=30)
        # A server may refuse a stream right after its last one was deleted.
        self._js.create_stream(name="KEEP", subjects=["keep"])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._nc.close()
        self._server.stop()

    @property
    def server_version(self) -> str:
        """Of the server that answers."""
        info = self._nc.server_info
        return f"nats-server {info.version}" if info else "nats-server"

    def store(self, size: int, count: int, storage: Storage) -> tuple[str, str]:
        """Have a stream with at least ``count`` messages of ``size`` bytes; return its name and
        subject."""
        name, subject = f"SOURCE_{size}_{storage}", f"source.{size}.{storage}"
        missing = count - self._stored.get(name, 0)
        if missing > 0:
            self._js.create_or_update_stream(
                name=name, subjects=[subject], storage=storage, allow_direct=True
            )
            rows = ((subject, bytes(size)) for _ in range(missing))
            self._js.publish_many(rows, msg_id=None).raise_for_failed()
            self._stored[name] = count
        return name, subject

    def run(self, peer: Peer, workload: Workload, size: int, count: int) -> dict[str, Any]:
        """Measure one workload of one peer once."""
        wishes: dict[str, Any] = {
            "workload": workload.name.removesuffix(IN_MEMORY),
            "count": count,
            "size": size,
            "batch": FETCH,
        }
        stream = ""
        if workload.source:
            stream, subject = self.store(size, count, workload.storage)
            wishes |= {"stream": stream, "subject": subject}
            if workload.ack is not None:
                wishes["consumer"] = self._pull_consumer(stream, workload.ack)
            elif workload.push:
                wishes |= self._push_consumer(stream)
        return self._arrange(peer, wishes, workload, stream)

    def grow(self, peer: Peer, growth: Growth, point: int, scale: float) -> dict[str, Any]:
        """Measure one point of a growing cost once."""
        size = point if growth.axis == "bytes" else 128
        count = max(growth.point_count(point, scale), 1)
        wishes = {"workload": growth.name, "count": count, "size": size, "point": point}
        return self._arrange(peer, wishes, growth, "")

    # --- inside --------------------------------------------------------------------------

    def _arrange(
        self, peer: Peer, wishes: dict[str, Any], what: Workload | Growth, stream: str
    ) -> dict[str, Any]:
        self._number += 1
        helper: dict[str, Any] = {}
        if what.sink:
            self._empty_sink(what.storage if isinstance(what, Workload) else "file")
            wishes["subject"] = "sink.x"
        if what.echo:
            wishes["subject"] = f"echo.{self._number}"
            helper = {"workload": "echo", "subject": wishes["subject"], "size": wishes["size"]}
        if what.flood:
            wishes["subject"] = f"flood.{self._number}"
            helper = {**wishes, "workload": "flood"}
            if isinstance(what, Growth) and what.spread:
                helper["spread"] = wishes["point"]
        try:
            return self._measure(peer.command, wishes, helper)
        finally:
            if "consumer" in wishes:
                self._js.delete_consumer(stream, wishes["consumer"])

    def _measure(
        self, command: Sequence[str], wishes: dict[str, Any], helper: dict[str, Any]
    ) -> dict[str, Any]:
        echo = flood = None
        if helper.get("workload") == "echo":
            echo = self._start(self._raw, helper)
            if echo.stdout:
                echo.stdout.readline()  # it listens
        with tempfile.TemporaryFile("w+") as complaints:
            peer = self._start(command, wishes, complaints)
            impatience = threading.Timer(_PATIENCE, peer.kill)
            impatience.start()
            try:
                assert peer.stdin
                assert peer.stdout
                if peer.stdout.readline() == "ready\n":
                    if helper.get("workload") == "flood":
                        flood = self._start(self._raw, helper)
                    peer.stdin.write("go\n")
                    peer.stdin.flush()
                line = peer.stdout.readline()
                if not line.startswith("{"):
                    peer.wait(10)
                    complaints.seek(0)
                    said = complaints.read().strip().splitlines()[-1:] or ["nothing"]
                    raise FailedError(f"exit {peer.returncode}, said: {said[0][:300]}")
                figures: dict[str, Any] = json.loads(line)
                return figures
            finally:
                impatience.cancel()
                for process in (peer, flood, echo):
                    if process is not None:
                        _end(process)

    def _start(
        self, command: Sequence[str], wishes: dict[str, Any], complaints: Any = subprocess.DEVNULL
    ) -> subprocess.Popen[str]:
        given = {**wishes, "url": self._server.url, "server": self._server.pid}
        arguments = [f"{key}={value}" for key, value in given.items()]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*command, *arguments],
            stdin=pipe,
            stdout=pipe,
            stderr=complaints,
            text=True,
            env=surroundings(),
        )

    def _empty_sink(self, storage: Storage) -> None:
        try:
            self._js.delete_stream("SINK")
        except jetsync.StreamNotFoundError:
            pass
        self._js.create_stream(name="SINK", subjects=["sink.>"], storage=storage)

    def _pull_consumer(self, stream: str, ack: str) -> str:
        name = f"pull{self._number}"
        self._js.create_or_update_consumer(
            stream, durable_name=name, ack_policy=jetsync.AckPolicy(ack)
        )
        return name

    def _push_consumer(self, stream: str) -> dict[str, str]:
        name, inbox = f"push{self._number}", f"deliver.{self._number}"
        self._js.create_or_update_consumer(
            stream, durable_name=name, ack_policy="none", deliver_subject=inbox
        )
        return {"consumer": name, "deliver": inbox}


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                pass
