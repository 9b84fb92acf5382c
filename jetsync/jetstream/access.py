"""The interface of a JetStream object for the rooms above ``jetstream/``, beside its public
calls."""

from __future__ import annotations

from jetsync._core.batch import last_of
from jetsync.client.port import Member, Reply
from jetsync.jetstream.consumers.consumer import begin_fetch
from jetsync.jetstream.context import api_of, at_prefix, stream_meanwhile
from jetsync.jetstream.pull.pieces import PiecewisePull

__all__ = [
    "Member",
    "PiecewisePull",
    "Reply",
    "api_of",
    "at_prefix",
    "begin_fetch",
    "last_of",
    "stream_meanwhile",
]
