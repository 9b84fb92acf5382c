"""The meaning of every status of a pull, in one table.

Source: nats-server 2.15 and ADR-37. ``tests/jetstream/test_pull_statuses.py`` provokes every row.
"""

from __future__ import annotations

import enum

from jetsync.client import Msg

__all__ = ["STATUSES", "Fate", "fate_of", "pending_messages"]


class Fate(enum.Enum):
    """The meaning of a status."""

    ALIVE = "the pull goes on"
    DONE = "the pull is over as it should be"
    LIMIT = "the next message does not fit into the bytes that were asked for"
    RETRY = "this pull is void through no fault of its own: pull again"
    VOID = "every pull of the consumer is void through no fault of its own: pull again"
    LOST = "no server answers for the consumer: ask whether it still exists, then pull again"
    WARN = "the pull was refused: tell the user"
    FATAL = "the consumer cannot be pulled any more"


# (code, beginning of the lower-cased text, fate); the first row that fits. A code's last row, with
# an empty text, is for words of other server versions.
STATUSES: tuple[tuple[int, str, Fate], ...] = (
    (100, "", Fate.ALIVE),
    (400, "bad request", Fate.WARN),
    (404, "no messages", Fate.DONE),
    (404, "", Fate.DONE),
    (408, "request timeout", Fate.DONE),
    (408, "requests pending", Fate.DONE),
    (408, "interest expired", Fate.DONE),
    (408, "", Fate.DONE),
    (409, "message size exceeds maxbytes", Fate.LIMIT),
    (409, "batch completed", Fate.DONE),
    (409, "consumer deleted", Fate.FATAL),
    (409, "consumer is push based", Fate.FATAL),
    (409, "leadership change", Fate.VOID),
    (409, "server shutdown", Fate.VOID),
    (409, "exceeded maxwaiting", Fate.WARN),
    (409, "exceeded maxrequestbatch", Fate.WARN),
    (409, "exceeded maxrequestexpires", Fate.WARN),
    (409, "exceeded maxrequestmaxbytes", Fate.WARN),
    (412, "required api level", Fate.WARN),
    (423, "nats-pin-id mismatch", Fate.RETRY),
    (423, "nats-wrong-pin-id", Fate.RETRY),
    (423, "", Fate.RETRY),
    (503, "", Fate.LOST),
)


def fate_of(status: int, text: str) -> Fate:
    """Look a status up; an unknown one ends its pull and is told to the user."""
    lowered = text.lower()
    for code, beginning, fate in STATUSES:
        if status == code and lowered.startswith(beginning):
            return fate
    return Fate.WARN


def pending_messages(msg: Msg) -> int | None:
    """How many messages of its batch the server had not sent when it ended a pull; None if it does
    not say. It may say a negative number, which means none."""
    value = msg.headers.get("Nats-Pending-Messages")
    try:
        return None if value is None else max(0, int(value))
    except ValueError:
        return None
