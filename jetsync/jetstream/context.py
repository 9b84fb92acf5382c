"""JetStream: the entry to streams, consumers and publishing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from jetsync._deadline import Seconds
from jetsync._handles import Handle
from jetsync._numbers import check_whole
from jetsync._signatures import spells_out
from jetsync.client.port import port_of
from jetsync.jetstream.api import API
from jetsync.jetstream.publish.publisher import Publisher
from jetsync.jetstream.streams.manager import StreamManager
from jetsync.jetstream.streams.requests import info_operation, stream_info
from jetsync.jetstream.streams.stream import Stream
from jetsync.jetstream.subscribe.workflow import Subscriber

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.client import Connection
    from jetsync.kv import KeyValue, KeyValueConfig, KeyValueStatus
    from jetsync.kv.config import KeyValueFields
    from jetsync.objectstore import ObjectStore, ObjectStoreConfig, ObjectStoreStatus
    from jetsync.objectstore.config import ObjectStoreFields

__all__ = ["JetStream", "api_of", "at_prefix", "stream_meanwhile"]


class JetStream(Handle, Publisher, StreamManager, Subscriber):
    """Streams, consumers and publishing on one connection. Made by ``Connection.jetstream``.

    Thread-safe. Every call blocks up to ``timeout`` seconds (default: this object's) and raises the
    APIError subclass of the server's answer, JetStreamNotEnabledError, TimeoutError,
    DisconnectedError or ConnectionClosedError.
    """

    def __init__(
        self,
        nc: Connection,
        *,
        domain: str | None,
        api_prefix: str | None,
        timeout: float,
        max_pending: int | None,
        auto_msg_id: bool,
    ) -> None:
        if max_pending is not None:
            check_whole("max_pending", max_pending)
        self._nc = nc
        self._port = port_of(nc)
        self._api = API(nc, domain=domain, api_prefix=api_prefix, timeout=timeout)
        self._max_pending = max_pending
        self._auto_msg_id = auto_msg_id

    # -- key-value: a room above this one, imported at first use -----------------------------------

    def key_value(self, bucket: str, *, timeout: Seconds | None = None) -> KeyValue:
        """Look a key-value bucket up (ADR-8).

        Blocks up to ``timeout`` seconds (default: this object's). Raises BucketNotFoundError,
        KeyValueError for a stream that is no bucket and for a mirror of a mirror, another APIError;
        ConfigError before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        from jetsync.kv import manager

        return manager.open_bucket(self, bucket, self._api.deadline(timeout))

    @spells_out("jetsync.kv.config:KeyValueConfig")
    def create_key_value(
        self,
        config: KeyValueConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Unpack[KeyValueFields],
    ) -> KeyValue:
        """Create a key-value bucket from a KeyValueConfig or its fields (ADR-8).

        The same configuration again is fine.

        Blocks up to ``timeout`` seconds (default: this object's). Raises BucketExistsError when a
        bucket of this name has another configuration, KeyValueError for a mirror of a mirror,
        InvalidStreamConfigError or another APIError; ConfigError and ApiLevelRequiredError (a field
        needs a newer server) before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        from jetsync.kv import manager

        return manager.create(self, config, fields, self._api.deadline(timeout))

    @spells_out("jetsync.kv.config:KeyValueConfig")
    def update_key_value(
        self,
        config: KeyValueConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Unpack[KeyValueFields],
    ) -> KeyValue:
        """Change a key-value bucket.

        With a ``config`` that becomes the configuration, keywords on top. With ``bucket=`` and
        keywords alone only those fields change. Fields of the stream that a bucket's configuration
        does not have keep their values. The stream is read first: another client's change between
        the reading and the writing is overwritten.

        Blocks up to ``timeout`` seconds (default: this object's). Raises BucketNotFoundError,
        InvalidStreamConfigError or another APIError; ConfigError and ApiLevelRequiredError (a field
        needs a newer server) before the change is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        from jetsync.kv import manager

        return manager.update(self, config, fields, self._api.deadline(timeout))

    @spells_out("jetsync.kv.config:KeyValueConfig")
    def create_or_update_key_value(
        self,
        config: KeyValueConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Unpack[KeyValueFields],
    ) -> KeyValue:
        """Make sure that a key-value bucket with this configuration exists.

        What is not given gets its default, whether the bucket was there or not.

        Blocks up to ``timeout`` seconds (default: this object's). Raises KeyValueError for a mirror
        of a mirror, InvalidStreamConfigError or another APIError; ConfigError and
        ApiLevelRequiredError (a field needs a newer server) before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        from jetsync.kv import manager

        return manager.create_or_update(self, config, fields, self._api.deadline(timeout))

    def delete_key_value(self, bucket: str, *, timeout: Seconds | None = None) -> None:
        """Delete a key-value bucket with everything in it.

        Blocks up to ``timeout`` seconds (default: this object's). Raises BucketNotFoundError or
        another APIError; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        from jetsync.kv import manager

        manager.delete(self, bucket, timeout)

    def key_value_buckets(self, *, timeout: Seconds | None = None) -> Iterator[KeyValueStatus]:
        """Iterate over the state of all key-value buckets; other streams are not read. Mirrors come
        last.

        Blocks while it is iterated, up to ``timeout`` seconds (default: this object's) for each
        page and for each mirror. Raises then JetStreamUnavailableError when servers did not answer
        for some buckets, or another APIError; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        from jetsync.kv import manager

        return manager.statuses(self, timeout)

    def key_value_names(self, *, timeout: Seconds | None = None) -> Iterator[str]:
        """Iterate over the names of all key-value buckets.

        Blocks while it is iterated, up to ``timeout`` seconds (default: this object's) for each
        page. Raises then an APIError; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        from jetsync.kv import manager

        return manager.names(self, timeout)

    # -- object store: a room above this one, imported at first use --------------------------------

    def object_store(self, bucket: str, *, timeout: Seconds | None = None) -> ObjectStore:
        """Look a bucket of objects up (ADR-20).

        Blocks up to ``timeout`` seconds (default: this object's). Raises ObjectStoreNotFoundError
        or another APIError; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError.
        """
        from jetsync.objectstore import manager

        return manager.open_store(self, bucket, self._api.deadline(timeout))

    @spells_out("jetsync.objectstore.config:ObjectStoreConfig")
    def create_object_store(
        self,
        config: ObjectStoreConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Unpack[ObjectStoreFields],
    ) -> ObjectStore:
        """Create a bucket of objects from an ObjectStoreConfig or its fields (ADR-20).

        The same configuration again is fine.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ObjectStoreExistsError
        when a bucket of this name has another configuration, InvalidStreamConfigError or another
        APIError; ConfigError and ApiLevelRequiredError (a field needs a newer server) before
        anything is sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        After TimeoutError or DisconnectedError it may have been done.
        """
        from jetsync.objectstore import manager

        return manager.create(self, config, fields, self._api.deadline(timeout))

    @spells_out("jetsync.objectstore.config:ObjectStoreConfig")
    def update_object_store(
        self,
        config: ObjectStoreConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Unpack[ObjectStoreFields],
    ) -> ObjectStore:
        """Change a bucket of objects.

        With a ``config`` that becomes the configuration, keywords on top. With ``bucket=`` and
        keywords alone only those fields change. The stream is read first: another client's change
        between the reading and the writing is overwritten.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ObjectStoreNotFoundError,
        InvalidStreamConfigError or another APIError; ConfigError and ApiLevelRequiredError (a field
        needs a newer server) before the change is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        from jetsync.objectstore import manager

        return manager.update(self, config, fields, self._api.deadline(timeout))

    @spells_out("jetsync.objectstore.config:ObjectStoreConfig")
    def create_or_update_object_store(
        self,
        config: ObjectStoreConfig | None = None,
        *,
        timeout: Seconds | None = None,
        **fields: Unpack[ObjectStoreFields],
    ) -> ObjectStore:
        """Make sure that a bucket of objects with this configuration exists.

        What is not given gets its default, whether the bucket was there or not.

        Blocks up to ``timeout`` seconds (default: this object's). Raises InvalidStreamConfigError
        or another APIError; ConfigError and ApiLevelRequiredError (a field needs a newer server)
        before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. After TimeoutError or DisconnectedError it may have been done.
        """
        from jetsync.objectstore import manager

        return manager.create_or_update(self, config, fields, self._api.deadline(timeout))

    def delete_object_store(self, bucket: str, *, timeout: Seconds | None = None) -> None:
        """Delete a bucket of objects with every object in it.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ObjectStoreNotFoundError
        or another APIError; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        from jetsync.objectstore import manager

        manager.delete(self, bucket, timeout)

    def object_stores(self, *, timeout: Seconds | None = None) -> Iterator[ObjectStoreStatus]:
        """Iterate over the state of all buckets of objects.

        Blocks while it is iterated, up to ``timeout`` seconds (default: this object's) for each
        page. Raises then JetStreamUnavailableError when servers did not answer for some buckets, or
        another APIError; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        from jetsync.objectstore import manager

        return manager.statuses(self, timeout)

    def object_store_names(self, *, timeout: Seconds | None = None) -> Iterator[str]:
        """Iterate over the names of all buckets of objects.

        Blocks while it is iterated, up to ``timeout`` seconds (default: this object's) for each
        page. Raises then an APIError; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        from jetsync.objectstore import manager

        return manager.names(self, timeout)

    def __repr__(self) -> str:
        return f"JetStream({self._api.prefix!r} on {self._nc!r})"


# -- for the rooms above: see access.py ------------------------------------------------------------


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


def stream_meanwhile(js: JetStream, name: str, action: Callable[[], object]) -> Stream:
    """Look a stream up like ``JetStream.stream``, with ``action`` between the question and the wait
    for its answer: a request that it makes costs no round trip more. Blocks."""
    api = js._api
    with api.ask_ahead(info_operation(name), api.deadline(None)) as ahead:
        action()
        return Stream(js, api, stream_info(api, name, None, ahead=ahead))
