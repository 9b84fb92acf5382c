"""The interface of a JetStream object for the rooms above ``jetstream/``, beside its public
calls."""

from __future__ import annotations

from jetsync._core.batch import last_of
from jetsync.client.port import Member, Reply
from jetsync.jetstream.context import api_of, at_prefix

__all__ = ["Member", "Reply", "api_of", "at_prefix", "last_of"]
