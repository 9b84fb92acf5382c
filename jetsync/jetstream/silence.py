"""Whether missing heartbeats mean that the server has gone silent: one rule for pulls and pushes.

No I/O and no clock: the caller says what it is now, what came, and sends the PING of a doubt.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

__all__ = ["Silence", "judge_silence"]


class Silence(enum.Enum):
    """Whether the server still serves a consumer whose heartbeats are missing."""

    NONE = "there was a sign of life, or none is due"
    DOUBT = "a heartbeat is missing, but bytes arrive that it may be behind: ask with a PING"
    DEAD = "the server does not serve the consumer any more"


def judge_silence(
    now: float,
    *,
    asked_at: float,
    ponged: bool,
    is_receiving: bool,
    read_at: float,
    patience: float,
    has_unread: Callable[[], bool],
) -> Silence:
    """Judge at ``now`` heartbeats that are missing for too long already.

    ``asked_at`` is when the PING of DOUBT was sent, 0.0 when none was since the last sign of life;
    ``ponged`` whether it was answered. ``is_receiving``: whether anything was received on the link
    after the last sign of life, ``read_at`` when that was the last time, ``has_unread`` whether
    there are bytes that were not received yet. ``patience`` is how many seconds nothing may come in
    a doubt.

    A large message, of any subscription, holds up the heartbeats behind it, and so does everything
    that waits in a slow link, or here because this process got no processor. A PONG comes behind
    all of that: until then silence means nothing as long as bytes arrive, and from then on bytes
    mean nothing. The PONG itself is awaited with a bound, for the link (``client/vitals.py``).
    """
    if not asked_at:
        return Silence.DOUBT if is_receiving or has_unread() else Silence.DEAD
    if not ponged and (now <= max(asked_at, read_at) + patience or has_unread()):
        return Silence.NONE
    return Silence.DEAD
