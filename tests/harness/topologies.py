"""Two clusters that gateways join, and servers that are replaced by a newer version."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jetsync
from jetsync.server import NatsCluster, NatsServer, find_binary
from jetsync.server.ports import HOST, free_port
from tests.harness.conditioner import Link, LinkProcess
from tests.harness.older import older_binary
from tests.harness.partitions import CLOSED_PORT
from tests.harness.waiting import wait_until


class SuperCluster:
    """Clusters ``east`` and ``west``, each of so many servers, joined by gateways that can be cut.

    A gateway tells the others a closed port for itself, so that nothing goes around the links.
    """

    def __init__(self, sizes: tuple[int, int]) -> None:
        self._process = LinkProcess()
        self._names = ("east", "west")
        gateways = {
            name: [f"{HOST}:{free_port()}" for _ in range(size)]
            for name, size in zip(self._names, sizes, strict=True)
        }
        self._links = {
            name: [Link(f"nats://{place}", process=self._process) for place in places]
            for name, places in gateways.items()
        }
        self.clusters: dict[str, list[NatsServer]] = {
            name: self._make(name, gateways[name]) for name in self._names
        }

    def _make(self, name: str, gateways: Sequence[str]) -> list[NatsServer]:
        routes = [f"nats://{HOST}:{free_port()}" for _ in gateways]
        remotes = ", ".join(
            f"{{name: {other}, urls: [{', '.join(repr(link.url) for link in links)}]}}"
            for other, links in self._links.items()
            if other != name
        )
        return [
            NatsServer(
                name=f"{name}-{number}",
                config=f"gateway {{ name: {name}, listen: '{gateway}', "
                f"advertise: '{CLOSED_PORT}', connect_retries: 1000, gateways: [{remotes}] }}",
                arguments=[
                    *("--cluster", routes[number], "--cluster_name", name),
                    *("--routes", ",".join(routes)),
                ],
            )
            for number, gateway in enumerate(gateways)
        ]

    @property
    def servers(self) -> list[NatsServer]:
        """Those of both clusters."""
        return [server for servers in self.clusters.values() for server in servers]

    def urls(self, name: str) -> list[str]:
        """The URLs for clients of one cluster."""
        return [server.url for server in self.clusters[name]]

    def cut(self) -> None:
        """Reset every gateway connection and refuse new ones, until ``join()``."""
        for links in self._links.values():
            for link in links:
                link.refuse()
                link.cut()

    def join(self) -> None:
        """Let the clusters find each other again."""
        for links in self._links.values():
            for link in links:
                link.refuse(False)

    def _is_whole(self) -> bool:
        for servers in self.clusters.values():
            for server in servers:
                meta = server.monitor("jsz").get("meta_cluster", {})
                if not meta.get("leader") or meta.get("cluster_size") != len(self.servers):
                    return False
                if not server.monitor("gatewayz")["outbound_gateways"]:
                    return False
        return True

    def __enter__(self) -> SuperCluster:
        try:
            with ThreadPoolExecutor(len(self.servers)) as threads:
                list(threads.map(lambda server: server.start(30), self.servers))
            wait_until(self._is_whole, timeout=60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.kill()
        for server in self.servers:
            server.stop()
        self._process.close()


def cluster_of(js: jetsync.JetStream, stream: str) -> str | None:
    """The name of the cluster that a stream is in."""
    info = js.stream(stream, timeout=30).info(timeout=30)
    return info.cluster.name if info.cluster is not None else None


def leader_of(js: jetsync.JetStream, stream: str) -> str | None:
    """The name of the server that leads a stream; None while there is none."""
    info = js.stream(stream, timeout=30).info(timeout=30)
    return info.cluster.leader if info.cluster is not None else None


@contextlib.contextmanager
def upgradable_cluster(version: str, folder: Path, size: int = 3) -> Iterator[NatsCluster]:
    """A cluster of an older version; what is started again after ``upgrade`` is the newest."""
    binary = folder / "nats-server"
    binary.symlink_to(older_binary(version))
    # A lame duck spreads its goodbyes over this time, of which the servers take no less than 30 s.
    goodbye = {"lame_duck_duration": "30s", "lame_duck_grace_period": "1s"}
    with NatsCluster(size, binary=binary, config=goodbye) as cluster:
        yield cluster


def upgrade(folder: Path) -> None:
    """From the next start on, the servers of ``upgradable_cluster`` are of the newest version."""
    other = folder / "newer"
    other.symlink_to(find_binary())
    other.rename(folder / "nats-server")
