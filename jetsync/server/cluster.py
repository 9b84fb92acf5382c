"""``NatsCluster``: several nats-servers that form one system."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync._numbers import check_whole
from jetsync.errors import ConfigError, ServerUnavailableError
from jetsync.server.config import Config, check_name
from jetsync.server.ports import HOST, free_port
from jetsync.server.server import NatsServer, PortTakenError

__all__ = ["NatsCluster"]

_POLL = 0.02
_PORT_ATTEMPTS = 5
_ANSWER_WITHIN = 0.5


class NatsCluster:
    """A cluster of real nats-servers on 127.0.0.1, for tests of failures.

    ``with NatsCluster() as cluster: jetsync.connect(cluster.urls)``

    It asks for no login unless ``config`` does: every user of this machine can connect.

    ``servers`` are its ``size`` (2 or more) nodes, each a ``NatsServer`` named ``<name>-<number>``:
    kill, pause, stop or restart them one by one. A node that is stopped keeps its files and can be
    started again; the cluster removes them when it is stopped itself. With ``store_dir`` each node
    has a folder there, which is kept. The other parameters are as for ``NatsServer``; ``config``
    goes to every node. Raises ``ConfigError`` for wrong arguments; nothing is started before
    ``start()`` or ``with``. Methods may be called from any thread.
    """

    def __init__(
        self,
        size: int = 3,
        *,
        jetstream: bool = True,
        store_dir: str | os.PathLike[str] | None = None,
        config: Config | None = None,
        name: str = "jetsync",
        binary: str | os.PathLike[str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        check_whole("size", size, least=2)
        self._size = size
        self._jetstream = jetstream
        self._store_dir = None if store_dir is None else Path(store_dir)
        self._config = config
        self._name = check_name(name)
        self._binary = binary
        self._arguments = [*arguments]
        self.servers: list[NatsServer] = self._make_servers()

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self._name

    @property
    def urls(self) -> list[str]:
        """One URL for each node, running or not."""
        return [server.url for server in self.servers]

    @property
    def url(self) -> str:
        """All URLs in one text, separated by commas."""
        return ",".join(self.urls)

    def start(self, timeout: float = 60.0) -> NatsCluster:
        """Start every node that does not run, wait until all work together; return the cluster.

        That is: all nodes know each other and, with JetStream, agree on its leader, which has seen
        every node. Blocks up to ``timeout`` seconds. Raises ``ServerUnavailableError`` if that
        does not happen in time; nodes that were started stay for ``stop()``.
        """
        deadline = Deadline(timeout)
        self._start_servers(deadline, timeout)
        while not self._is_whole():
            if deadline.expired:
                raise ServerUnavailableError(
                    f"the nodes of cluster {self._name} did not come together within {timeout} s."
                )
            time.sleep(_POLL)
        return self

    def stop(self, timeout: float = 20.0) -> None:
        """Shut every node down and remove temporary files; a given ``store_dir`` stays.

        Blocks until all have ended: what has not within ``timeout`` seconds is killed. Does
        nothing if the cluster is stopped already.
        """
        deadline = Deadline(timeout)
        for server in self.servers:
            NatsServer.stop(server, deadline.within(timeout))

    def kill(self) -> None:
        """End every node with SIGKILL, as a power cut does. Their files stay for the next start."""
        for server in self.servers:
            server.kill()

    def restart(self, timeout: float = 80.0) -> NatsCluster:
        """Shut every node down, then start all of them again. Blocks up to ``timeout`` seconds;
        raises as ``start()``.
        """
        deadline = Deadline(timeout)
        for server in self.servers:
            server.stop(deadline.within(timeout))
        return self.start(deadline.within(timeout))

    def pause(self) -> None:
        """Freeze every node (SIGSTOP); raises as ``NatsServer.pause()``."""
        for server in self.servers:
            server.pause()

    def resume(self) -> None:
        """Let every paused node go on (SIGCONT)."""
        for server in self.servers:
            server.resume()

    def reload(self, config: Config | None = None) -> None:
        """Make every node read its configuration again, one after another; raises as
        ``NatsServer.reload()``."""
        for server in self.servers:
            server.reload(config)

    def lame_duck(self) -> None:
        """Tell every node to say goodbye and end. A rolling restart does it node by node."""
        for server in self.servers:
            server.lame_duck()

    def leader(self) -> NatsServer | None:
        """Return the leader of JetStream as most nodes see it; None while there is none.

        Blocks while the nodes are asked: at most half a second for each.
        """
        metas = self._ask("jsz", "meta_cluster")
        votes = Counter(meta.get("leader") for meta in metas.values())
        for name, count in votes.items():
            # A leader that died or hangs stays named by the others for seconds.
            if name and 2 * count > self._size and metas.get(name, {}).get("leader") == name:
                return self.server(name)
        return None

    def wait_for_leader(self, timeout: float = 20.0) -> NatsServer:
        """Wait until there is a leader of JetStream and return it.

        Blocks up to ``timeout`` seconds. Raises ``ServerUnavailableError`` without one by then.
        """
        deadline = Deadline(timeout)
        while (leader := self.leader()) is None:
            if deadline.expired:
                raise ServerUnavailableError(
                    f"cluster {self._name} had no JetStream leader within {timeout} s."
                )
            time.sleep(_POLL)
        return leader

    def server(self, name: str) -> NatsServer:
        """Return the node of this name. Raises ``ConfigError`` if there is none."""
        for server in self.servers:
            if server.name == name:
                return server
        raise ConfigError(f"cluster {self._name} has no node {name!r}")

    def __enter__(self) -> NatsCluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<NatsCluster {self._name}, {counted(self._size, 'node')}>"

    def _make_servers(self) -> list[NatsServer]:
        routes = [f"nats://{HOST}:{free_port()}" for _ in range(self._size)]
        return [
            _Node(
                jetstream=self._jetstream,
                store_dir=None if self._store_dir is None else self._store_dir / str(number),
                config=self._config,
                name=f"{self._name}-{number}",
                binary=self._binary,
                arguments=[*self._route_arguments(number - 1, routes), *self._arguments],
            )
            for number in range(1, self._size + 1)
        ]

    def _route_arguments(self, number: int, routes: list[str]) -> list[str]:
        """Return how node ``number`` (from 0) finds the others. A subclass may put links between
        the nodes here."""
        return [
            *("--cluster", routes[number], "--cluster_name", self._name),
            *("--routes", ",".join(routes)),
        ]

    def _start_servers(self, deadline: Deadline, timeout: float) -> None:
        is_first = not any(server.port for server in self.servers)
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            try:
                for server in self.servers:
                    server.start(deadline.within(timeout))
            except PortTakenError:
                # Nodes have to know each other's ports in advance, so one lost port is a new try.
                if not is_first or attempt == _PORT_ATTEMPTS:
                    raise
                self.stop(deadline.within(timeout))
                self.servers[:] = self._make_servers()
            else:
                return

    def _is_whole(self) -> bool:
        others = self._size - 1
        routes = self._ask("routez", "routes").values()
        if [len({r["remote_name"] for r in each}) for each in routes] != [others] * self._size:
            return False
        if not self._jetstream:
            return True
        metas = self._ask("jsz", "meta_cluster")
        leaders = {meta.get("leader") for meta in metas.values()}
        if len(metas) != self._size or len(leaders) != 1:
            return False
        # Only the leader knows how far the others are.
        replicas = metas.get(leaders.pop(), {}).get("replicas", [])
        ready = [r for r in replicas if r["current"] and not r.get("offline")]
        return len(ready) == others

    def _ask(self, path: str, field: str) -> dict[str, Any]:
        """Return one field of the monitoring of each node that answers, by the node's name."""
        answers = {}
        for server in self.servers:
            try:
                answer = server.monitor(path, _ANSWER_WITHIN)
            except ServerUnavailableError:
                continue
            if field in answer:
                answers[server.name] = answer[field]
        return answers


class _Node(NatsServer):
    """A node that is stopped alone keeps its files, to come back as the node it was."""

    def stop(self, timeout: float = 10.0) -> None:
        """Shut the node down; its files stay. Otherwise as ``NatsServer.stop()``."""
        if self._resources.is_foreign:
            return
        with self._lock:
            self._resources.terminate(Deadline(timeout))
