"""How long a consumer waits for an acknowledgement, and the warning when that was too short."""

from __future__ import annotations

from typing import Any

from jetsync.client.port import port_of
from jetsync.errors import SlowAckWarning

__all__ = ["ack_waits", "tell_if_late"]


def ack_waits(context: Any) -> list[float]:
    """The waits of a message's consumer, in seconds; empty when they are not known."""
    config = getattr(getattr(context, "cached_info", None), "config", None)
    if config is None:
        return []
    # With backoff its first wait replaces ack_wait, then the next ones.
    return list(config.backoff) or [wait for wait in (config.ack_wait,) if wait]


def tell_if_late(context: Any, nc: Any, held: float) -> None:
    """Give ``on_error`` a SlowAckWarning, once for each consumer object, when a message was held
    for longer than its consumer waits."""
    longest = max(ack_waits(context), default=held)
    if held <= longest or getattr(context, "told_late", True):
        return
    context.told_late = True
    port_of(nc).report(
        SlowAckWarning(
            f"a message of {context!r} was acknowledged {held:.1f} s or more after it was received,"
            f" but after {longest:g} s it is delivered again: fetch fewer messages at a time, raise"
            " ack_wait, or use keep_alive()",
            held=held,
            ack_wait=longest,
        ),
    )
