"""A cluster whose servers can be parted from each other while clients still reach all of them.

``with PartedCluster(3) as cluster: cluster.part([cluster.servers[0]]); ...; cluster.join()``

Each server dials each other one through a link of its own (``conditioner.Link``), and the address
that it tells the cluster for itself is a closed port, so no route goes around the links.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jetsync.server import NatsCluster, NatsServer
from tests.harness.conditioner import Link, LinkProcess

CLOSED_PORT = "127.0.0.1:1"


class PartedCluster(NatsCluster):
    """A ``NatsCluster`` with ``part()``, ``join()`` and ``slow()``; parameters as there."""

    def __init__(self, size: int = 3, **options: Any) -> None:
        self._process = LinkProcess()
        self._routes: dict[tuple[int, int], Link] = {}
        try:
            super().__init__(size, **options)
        except BaseException:
            self._process.close()
            raise

    def part(self, group: Iterable[NatsServer]) -> None:
        """Let nothing pass between these servers and the others, in no direction.

        Routes stay open and silent, as when a switch fails; ``join()`` ends it.
        """
        inside = {self.servers.index(server) for server in group}
        for (one, other), link in self._routes.items():
            if (one in inside) != (other in inside):
                link.stall()
            else:
                link.resume()

    def cut(self, group: Iterable[NatsServer]) -> None:
        """As ``part()``, but the routes are reset and new ones refused: both sides know at once."""
        inside = {self.servers.index(server) for server in group}
        for (one, other), link in self._routes.items():
            if (one in inside) != (other in inside):
                link.refuse()
                link.cut()

    def join(self) -> None:
        """End every partition; what was held goes on its way. Returns at once."""
        for link in self._routes.values():
            link.refuse(False)
            link.resume()

    def slow(self, rtt: float, bandwidth: float = 0.0) -> None:
        """Give every route this round trip (seconds) and bandwidth (bytes a second, 0: any)."""
        for link in self._routes.values():
            link.set(rtt=rtt, bandwidth=bandwidth)

    def stop(self, timeout: float = 20.0) -> None:
        """Stop as ``NatsCluster.stop()``, whatever state the routes are in."""
        super().stop(timeout)
        self._process.close()

    def _route_arguments(self, number: int, routes: list[str]) -> list[str]:
        """Dial the others through links, which are made when the first server asks for them."""
        if number == 0:
            for link in self._routes.values():
                link.close()
            self._routes = {
                (one, other): Link(address, process=self._process)
                for one in range(len(routes))
                for other, address in enumerate(routes)
                if one != other
            }
        others = [link.url for (one, _), link in self._routes.items() if one == number]
        return [
            *("--cluster", routes[number], "--cluster_name", self.name),
            *("--cluster_advertise", CLOSED_PORT, "--routes", ",".join(others)),
        ]
