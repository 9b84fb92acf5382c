"""Measuring: the numbers of a connection, read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jetsync._measurement import Measurement

if TYPE_CHECKING:
    from jetsync._core.mailbox import Mailbox
    from jetsync.client.connection import Connection

__all__ = ["measure"]


def measure(
    nc: Connection, label: str, buffered: int, round_trip: float, mailboxes: Iterable[Mailbox]
) -> list[Measurement]:
    """Return the numbers of a connection. Does not block."""
    stats, info = nc.stats, nc.server_info
    at = {"connection": nc.options.name or label}
    about = {
        "server": info.server_name if info else "",
        "version": info.version if info else "",
        "cluster": (info.cluster or "") if info else "",
    }
    numbers: tuple[tuple[str, str, float], ...] = (
        ("up", "Whether there is a link.", float(nc.is_connected)),
        ("received_messages_total", "Messages received.", stats.in_messages),
        ("received_bytes_total", "Bytes of headers and data received.", stats.in_bytes),
        ("sent_messages_total", "Messages sent.", stats.out_messages),
        ("sent_bytes_total", "Bytes sent.", stats.out_bytes),
        ("reconnects_total", "How often the link was made anew.", stats.reconnects),
        ("unmatched_messages_total", "Messages without a receiver.", stats.unmatched),
        ("outbound_buffer_bytes", "Bytes that wait to be sent.", buffered),
        ("rtt_seconds", "Round trip to the server, smoothed, with its spread.", round_trip),
    )
    found = [
        Measurement(f"jetsync_connection_{name}", text, value, at) for name, text, value in numbers
    ]
    found.insert(1, Measurement("jetsync_connection_info", "Its server.", 1.0, {**at, **about}))
    waiting = [(box.pending_messages, box.pending_bytes) for box in mailboxes]
    found += [
        Measurement(f"jetsync_subscription_{name}", text, value, at)
        for name, text, value in (
            (
                "pending_messages",
                "Messages that wait in subscriptions.",
                sum(one[0] for one in waiting),
            ),
            ("pending_bytes", "Bytes that wait in subscriptions.", sum(one[1] for one in waiting)),
            ("dropped_messages_total", "Messages that slow subscriptions lost.", stats.dropped),
        )
    ]
    return found
