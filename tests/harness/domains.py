"""Two JetStream domains that a leaf node joins."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jetsync
from jetsync.server import NatsServer
from jetsync.server.ports import free_port
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until


@contextlib.contextmanager
def two_domains() -> Iterator[tuple[jetsync.Connection, jetsync.Connection]]:
    """Give a connection to a hub and one to a leaf node of it; their domains are ``hub`` and
    ``edge``. Each keeps a stream KEPT: a server that loses its last one may refuse the next one."""
    with parted_domains() as (there, here, _):
        yield there, here


@contextlib.contextmanager
def parted_domains() -> Iterator[tuple[jetsync.Connection, jetsync.Connection, Proxy]]:
    """The same, and the link between them as a proxy that can be stopped and started again."""
    port = free_port()
    hub_config = (
        'jetstream { domain: "hub" }\n'
        f'leafnodes {{ listen: "127.0.0.1:{port}", no_advertise: true }}'
    )
    with (
        NatsServer(config=hub_config) as hub,
        Proxy(f"nats://127.0.0.1:{port}") as link,
        NatsServer(config=_leaf_config(link.port)) as edge,
        jetsync.connect(hub.url) as there,
        jetsync.connect(edge.url) as here,
    ):

        def joined() -> bool:
            try:
                return here.jetstream(domain="hub").account_info(timeout=1).domain == "hub"
            except (jetsync.JetStreamNotEnabledError, jetsync.TimeoutError):
                return False

        wait_until(joined, timeout=30)
        there.jetstream().create_stream(name="KEPT")
        here.jetstream().create_stream(name="KEPT")
        yield there, here, link


def _leaf_config(port: int) -> str:
    return (
        'jetstream { domain: "edge" }\n'
        f'leafnodes {{ reconnect: 1, remotes: [ {{ url: "nats://127.0.0.1:{port}" }} ] }}'
    )
