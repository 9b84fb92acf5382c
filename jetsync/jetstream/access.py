"""What the rooms above ``jetstream/`` may use of a JetStream object beside its public calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync.client.port import Member, Reply
from jetsync.jetstream.api import API

if TYPE_CHECKING:
    from jetsync.jetstream.context import JetStream

__all__ = ["Member", "Reply", "api_of", "at_prefix"]


def api_of(js: JetStream) -> API:
    """Its API: prefix, default timeout, requests, server levels, and ``port``, the one to its
    connection. Does not block."""
    return js._api


def at_prefix(js: JetStream, api_prefix: str) -> JetStream:
    """A JetStream object with the same settings below another prefix. Does not block."""
    api = js._api
    return api.port.connection.jetstream(
        api_prefix=api_prefix, timeout=api.timeout, auto_msg_id=js._auto_msg_id
    )
