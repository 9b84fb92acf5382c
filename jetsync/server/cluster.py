"""NatsCluster: several nats-servers that form one system."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from jetsync._deadline import Deadline
from jetsync.errors import ConfigError, ServerUnavailableError
from jetsync.server.server import NatsServer, free_port

__all__ = ["NatsCluster"]


class NatsCluster:
    """A cluster of ``size`` servers on 127.0.0.1 with JetStream, for tests of failures.

    ``servers`` are the nodes, to be killed, paused and started one by one. ``config`` (text) is
    added to each. As a context manager it starts, and at the end stops and cleans up.
    """

    def __init__(
        self,
        size: int = 3,
        *,
        name: str = "jetsync",
        store_dir: str | os.PathLike[str] | None = None,
        config: str = "",
        binary: str | os.PathLike[str] | None = None,
    ) -> None:
        if size < 2:
            raise ConfigError("a cluster has 2 servers or more")
        self.name = name
        self._monitors: list[int] = []
        self.servers: list[NatsServer] = []
        routes = [free_port() for _ in range(size)]
        listed = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
        for number, route in enumerate(routes, 1):
            monitor = free_port()
            self._monitors.append(monitor)
            self.servers.append(
                NatsServer(
                    name=f"{name}-{number}",
                    port=free_port(),
                    store_dir=None if store_dir is None else Path(store_dir) / str(number),
                    config=(
                        f"http: 127.0.0.1:{monitor}\n"
                        f"cluster {{ name: {name}, listen: 127.0.0.1:{route}, "
                        f"routes: [{listed}] }}\n{config}"
                    ),
                    binary=binary,
                )
            )

    @property
    def urls(self) -> list[str]:
        """Where clients connect: one URL per server."""
        return [server.url for server in self.servers]

    @property
    def url(self) -> str:
        """All of them as one comma-separated string."""
        return ",".join(self.urls)

    def start(self, timeout: float = 30.0) -> NatsCluster:
        """Start every server that is not running, and wait for a JetStream leader. Blocks.

        Raises ServerUnavailableError when there is none within ``timeout`` seconds.
        """
        deadline = Deadline(timeout)
        for server in self.servers:
            server.start(deadline.within(timeout))
        while self.leader() is None:
            if deadline.expired:
                raise ServerUnavailableError("the cluster elected no JetStream leader in time")
            time.sleep(0.02)
        return self

    def leader(self) -> NatsServer | None:
        """The server that leads JetStream as all running servers see it; None while they differ."""
        names = {
            self._leader_seen_by(monitor)
            for server, monitor in zip(self.servers, self._monitors, strict=True)
            if server.is_running
        }
        if len(names) != 1:
            return None
        name = names.pop()
        return next((server for server in self.servers if server.name == name), None)

    def _leader_seen_by(self, monitor: int) -> str | None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            asked = http.client.HTTPConnection("127.0.0.1", monitor, timeout=1)
            try:
                asked.request("GET", "/jsz")
                answer: dict[str, Any] = json.loads(asked.getresponse().read())
            finally:
                asked.close()
            name = answer.get("meta_cluster", {}).get("leader")
            return str(name) if name else None
        return None

    def stop(self) -> None:
        """Stop every server; their streams stay. Safe to repeat."""
        for server in self.servers:
            server.stop()

    def close(self) -> None:
        """Stop every server and remove what was temporary. Safe to repeat."""
        for server in self.servers:
            server.close()

    def __enter__(self) -> NatsCluster:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"NatsCluster({self.urls!r})"
