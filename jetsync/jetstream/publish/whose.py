"""Which answers count: with ``domain=`` only those of the stream in that domain.

Over a leaf node a subject can belong to a stream on either side, and both answer a publish. The
answer of the nearer one comes first. A confirmation names its domain; a refusal names its stream
only, so the domain is asked whether that is its stream.
"""

from __future__ import annotations

import json
from typing import Any

from jetsync._deadline import Deadline
from jetsync.errors import Error
from jetsync.jetstream.api import API
from jetsync.jetstream.publish.outcome import PERSISTENCE

__all__ = ["Whose", "ask_streams_on", "soon", "streams_on"]


def streams_on(api: API, subject: str, deadline: Deadline) -> list[str] | None:
    """Return the names of the streams that take a subject; None when that cannot be known now."""
    try:
        return ask_streams_on(api, subject, deadline)
    except Error:
        return None


def ask_streams_on(api: API, subject: str, deadline: Deadline) -> list[str]:
    """Return the names of the streams that take a subject. Blocks; raises like ``API.request``."""
    answer = api.request("STREAM.NAMES", {"subject": subject}, timeout=deadline.remaining())
    return [str(name) for name in answer.get("streams") or ()]


def soon(api: API, deadline: Deadline) -> Deadline:
    """The time for a question that a message waits for: servers that elect a leader may not answer
    it, and take the next copy of the message meanwhile."""
    return deadline.step(max(PERSISTENCE.silence, api.port.rtt))


class Whose:
    """Tells answers of the requested domain from those of other domains."""

    def __init__(self, api: API) -> None:
        self.domain: str | None = api.domain
        self._api = api
        self._ours: dict[tuple[str, str], bool] = {}
        self.others: set[str] = set()
        """The domains whose confirmation did not count."""

    def confirmation_counts(self, domain: str | None) -> bool:
        """Whether a confirmation that names this domain counts."""
        if self.domain is None or domain == self.domain:
            return True
        self.others.add(domain or "none")
        return False

    def refusal_counts(self, subject: str, payload: bytes, deadline: Deadline) -> bool:
        """Whether a refusal is that of the domain. Blocks for a question or two at the first one.

        One that could be of either side does not count: the domain may have stored the message.
        """
        if self.domain is None or subject.startswith(f"{self._api.prefix}."):
            return True  # below the prefix of its API nothing but the domain answers
        stream = _stream_of(payload)
        if not stream:
            return True
        key = (stream, subject)
        if key not in self._ours:
            there = streams_on(self._api, subject, deadline)
            if there is None:
                return False
            if stream in there:
                here = self._streams_near(subject, deadline)
                self._ours[key] = here is None or stream not in here or self._is_near()
            else:
                self._ours[key] = False
        return self._ours[key]

    def _streams_near(self, subject: str, deadline: Deadline) -> list[str] | None:
        """Return the streams of the domain that the connection's own server is in."""
        api = self._api
        near = API(api.port.connection, domain=None, api_prefix=None, timeout=api.timeout)
        return streams_on(near, subject, deadline)

    def _is_near(self) -> bool:
        """Whether the server we are connected to is in the domain itself."""
        info = self._api.port.connection.server_info
        return info is not None and info.domain == self.domain

    def explain(self) -> str:
        """Return the addition to the text of an unknown outcome."""
        if not self.others:
            return ""
        who = " and ".join(repr(domain) for domain in sorted(self.others))
        return f"; domain {who} has confirmed it, {self.domain!r} has not"


def _stream_of(payload: bytes) -> str:
    try:
        answer: Any = json.loads(payload)
    except (ValueError, RecursionError):
        return ""
    return str(answer.get("stream") or "") if isinstance(answer, dict) else ""
