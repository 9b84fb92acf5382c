"""The shape that operations of one kind and destination share: name, kind of span, attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import urlsplit

from jetsync.observe import About, Operation

__all__ = ["Shape", "Shapes", "about"]

# By the kind of an operation: the operation of the conventions, its type, the kind of its span.
_KINDS = {
    "publish": ("publish", "send", "PRODUCER"),
    "request": ("request", "send", "PRODUCER"),
    "publish_many": ("publish", "send", "PRODUCER"),
    "create": ("create", "create", "PRODUCER"),
    "receive": ("receive", "receive", "CLIENT"),
    "process": ("process", "process", "CONSUMER"),
    "settle": ("ack", "settle", "CLIENT"),
}

_SETTLED = {"ack_sync": "ack"}
"""The operations of the conventions that have another name than the method."""


@dataclass(frozen=True, eq=False)
class Shape:
    """The name and the kind of a span, and the attributes that its metrics have too."""

    name: str
    kind: str
    shared: Mapping[str, Any]
    temporary: bool

    @cached_property
    def labels(self) -> frozenset[tuple[str, Any]]:
        """The shared attributes, as a key."""
        return frozenset(self.shared.items())


class Shapes:
    """The shapes of operations; those that were used last are kept. Thread-safe."""

    def __init__(self, subject_template: Callable[[str], str], message_spans: bool) -> None:
        # A batch whose messages have spans of their own is no producer of them.
        kinds = {**_KINDS, "publish_many": ("publish", "send", "CLIENT")}
        made = lru_cache(1024)(_maker(kinds if message_spans else _KINDS))

        def of(about: About) -> Shape:
            kind, name, url, subject, stream, consumer = about
            # A batch has one destination in the conventions: the stream, where it is known.
            destination = stream if kind == "receive" and stream is not None else subject
            if destination is None:
                destination = stream
            temporary = destination is not None and destination.startswith("_INBOX.")
            known = None if destination is None or temporary else subject_template(destination)
            name = _SETTLED.get(name, name) if kind == "settle" else ""
            return made(kind, name, known, temporary, consumer, url)

        # Subjects may be many more than templates: neither may push the others out.
        self.of: Callable[[About], Shape] = lru_cache(1024)(of)
        """Returns the shape of an operation."""
        self.attributes: Callable[[About], Mapping[str, Any]] = lru_cache(1024)(self._attributes)
        """Returns the attributes that the spans of such operations share."""

    def _attributes(self, about: About) -> Mapping[str, Any]:
        _, _, _, subject, stream, consumer = about
        shape = self.of(about)
        found = dict(shape.shared)
        if subject is not None:
            found["messaging.destination.name"] = subject
        if shape.temporary:
            found["messaging.destination.temporary"] = True
        if consumer is not None:
            found["messaging.destination.subscription.name"] = consumer
            if stream is not None:
                found["messaging.nats.consumer"] = consumer
        return found


def about(op: Operation) -> About:
    """Return what an operation is, as notes have it."""
    url = None if op.connection is None else op.connection.connected_url
    return op.kind, op.name, url, op.subject, op.stream, op.consumer


def _maker(kinds: Mapping[str, tuple[str, str, str]]) -> Callable[..., Shape]:
    def make(
        kind: str,
        name: str,
        destination: str | None,
        temporary: bool,
        consumer: str | None,
        url: Any,
    ) -> Shape:
        operation, type_, span_kind = kinds[kind]
        operation = name or operation
        shared: dict[str, Any] = {
            "messaging.system": "nats",
            "messaging.operation.name": operation,
            "messaging.operation.type": type_,
        }
        if destination is not None:
            shared["messaging.destination.template"] = destination
        if consumer is not None:
            shared["messaging.consumer.group.name"] = consumer
        if url is not None:
            parts = urlsplit(url)
            shared["server.address"] = parts.hostname or ""
            if parts.port is not None:
                shared["server.port"] = parts.port
        shown = "(temporary)" if temporary else destination or ""
        name = f"{operation} {shown}".rstrip()
        return Shape(name, span_kind, shared, temporary)

    return make
