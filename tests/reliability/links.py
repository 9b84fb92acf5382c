"""Waiting for the links of a connection to change."""

from __future__ import annotations

import jetsync
from tests.harness.waiting import wait_until


def await_reconnect(nc: jetsync.Connection, number: int) -> None:
    """Wait until it has reconnected that many times in all, and is connected."""
    wait_until(lambda: nc.stats.reconnects >= number and nc.is_connected, timeout=30)


def await_server(nc: jetsync.Connection, url: str, *, leaves: bool = False) -> None:
    """Wait until it is connected to this server, or (``leaves``) to another one."""
    wait_until(lambda: nc.is_connected and (str(nc.connected_url) == url) is not leaves, timeout=30)
