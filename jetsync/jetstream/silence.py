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
    """Say what it means, at ``now``, that heartbeats have been missing for too long.

    ``asked_at`` is when the PING of DOUBT was sent, 0.0 when none was since the last sign of life;
    ``ponged`` whether it was answered. ``is_receiving``: whether anything was received on the link
    after the last sign of life, ``read_at`` when anything was received last, ``has_unread``
    whether bytes wait in the socket. ``patience`` is how many seconds may pass after the PING
    without a byte.

    A large message, of any subscription, holds up the heartbeats behind it, and so does everything
    that waits in a slow link, or here because this process got no processor. A PONG comes behind
    all of that: until it is there, missing heartbeats mean nothing as long as bytes arrive; after
    it, bytes that arrive mean nothing. ``client/vitals.py`` ends a link on which no PONG comes.
    """
    if not asked_at:
        return Silence.DOUBT if is_receiving or has_unread() else Silence.DEAD
    if not ponged and (now <= max(asked_at, read_at) + patience or has_unread()):
        return Silence.NONE
    return Silence.DEAD
