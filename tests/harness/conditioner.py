"""A link conditioner: puts a server at the far end of a network that is not loopback.

``with Link(server.url, rtt=0.1, bandwidth=200_000) as link: jetsync.connect(link.url)``

What it shapes, each direction for itself and changeable at any moment:

- latency (seconds, one way; ``rtt`` sets half of it for each direction), with any number of
  messages under way at once, as on a real line;
- jitter (up to so many seconds more for each piece; order is kept, as TCP does);
- bandwidth (bytes a second), shared by all connections of the link;
- stalls: one direction or both carry nothing and hold the bytes, until ``resume()`` or for a time.

``cut()`` resets all connections, ``refuse()`` turns new ones away. The bytes are carried by a
process of its own (``conditioner_process.py``), which costs the interpreter under test nothing.
For faults of single bytes (swallowed answers, crumbs, flipped bits) there is ``proxy.Proxy``.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

PROGRAM = Path(__file__).with_name("conditioner_process.py")
FOR_EVER = 1e9

Way = Literal["to_client", "to_server"]
BOTH: tuple[Way, Way] = ("to_client", "to_server")


class LinkProcess:
    """The process that carries the bytes of any number of links; a context manager."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a test is not meant for the network
        )

    def do(self, command: str, **values: Any) -> dict[str, Any]:
        """Send one command and return its answer; it is in force then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"do": command, **values}).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the conditioner's process ended at {command} {values}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        """End the process and with it every connection of every link."""
        self._process.kill()
        self._process.wait()
        with self._lock:  # no thread is in the middle of a command
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):  # a command that was not read
                    pipe.close()

    def __enter__(self) -> LinkProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Link:
    """One shaped link to one target; a context manager. Methods may be called from any thread.

    ``rtt``, ``latency``, ``jitter`` (seconds) and ``bandwidth`` (bytes a second, None is without
    limit) hold for both directions; ``set()`` changes them, for one direction if asked. Give
    ``process`` to let several links share one.
    """

    def __init__(
        self,
        target: str,
        *,
        rtt: float = 0.0,
        jitter: float = 0.0,
        bandwidth: float | None = None,
        seed: int = 1,
        process: LinkProcess | None = None,
        port: int = 0,
    ) -> None:
        where = urlsplit(target if "//" in target else f"nats://{target}")
        self._scheme = where.scheme if where.scheme in ("ws", "wss") else "nats"
        self._owns_process = process is None
        self._process = process or LinkProcess()
        answer = self._process.do(
            "open", host=where.hostname or "127.0.0.1", port=where.port or 4222, listen=port,
            seed=seed,
        )  # fmt: skip
        self._number = answer["link"]
        self.port: int = answer["port"]
        self.set(rtt=rtt, jitter=jitter, bandwidth=bandwidth or 0)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def set(
        self,
        *,
        way: Way | None = None,
        rtt: float | None = None,
        latency: float | None = None,
        jitter: float | None = None,
        bandwidth: float | None = None,
    ) -> None:
        """Change what is given, for one direction or for both; ``bandwidth=0`` is without limit."""
        if rtt is not None:
            latency = rtt / 2
        values = {"latency": latency, "jitter": jitter, "bandwidth": bandwidth}
        values = {name: value for name, value in values.items() if value is not None}
        for each in _ways(way):
            self._process.do("shape", link=self._number, way=each, **values)

    def stall(self, *, way: Way | None = None, seconds: float = math.inf) -> None:
        """Carry nothing in one direction or both: for ``seconds``, or until ``resume()``.

        Bytes are held, connections stay open and new ones are taken, as with a black hole that TCP
        repeats its segments into.
        """
        for each in _ways(way):
            self._process.do("stall", link=self._number, way=each, seconds=min(seconds, FOR_EVER))

    def resume(self) -> None:
        """End every stall; what was held goes on its way first."""
        self.stall(seconds=0.0)

    def pause(self, seconds: float) -> None:
        """Carry nothing in both directions for ``seconds``; returns at once."""
        self.stall(seconds=seconds)

    def cut(self) -> None:
        """Reset (RST) every connection, towards both sides."""
        self._process.do("cut", link=self._number)

    def refuse(self, on: bool = True) -> None:
        """Turn new connections away with a reset, until ``refuse(False)``."""
        self._process.do("refuse", link=self._number, on=on)

    def state(self) -> dict[str, Any]:
        """Counts: ``connections``, ``accepted``, bytes carried ``to_client`` and ``to_server``,
        bytes ``under_way``."""
        return self._process.do("state", link=self._number)

    def close(self) -> None:
        """End the link and its connections; a shared process lives on and goes on refusing."""
        if self._owns_process:
            self._process.close()
        else:
            self.refuse()
            self.cut()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ways(way: Way | None) -> tuple[Way, ...]:
    return BOTH if way is None else (way,)
