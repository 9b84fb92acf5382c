"""StreamManager: the calls of JetStream that make, change, find and delete streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds
from jetsync._signatures import spells_out
from jetsync.errors import ConfigError, InvalidStreamConfigError, StreamNotFoundError
from jetsync.jetstream._wire import build
from jetsync.jetstream.config.account import AccountInfo
from jetsync.jetstream.config.stream import Placement, StreamConfig
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.jetstream.consumers.manager import ConsumerManager, fill_in, step_down
from jetsync.jetstream.levels import stream_needs
from jetsync.jetstream.ordered.manager import OrderedConsumers
from jetsync.jetstream.streams.backup import restore
from jetsync.jetstream.streams.requests import stream_info, tell_whose_subjects
from jetsync.jetstream.streams.stream import Stream
from jetsync.protocol.subjects import check_name, check_subscribe_subject

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.jetstream.config.fields import StreamFields

__all__ = ["StreamManager"]

_SUBJECTS_OVERLAP = 10065


class StreamManager(ConsumerManager, OrderedConsumers):
    """The calls of JetStream on streams, and on their consumers. Thread-safe."""

    @spells_out(StreamConfig)
    def create_stream(
        self,
        config: StreamConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[StreamFields],
    ) -> Stream:
        """Create a stream from a StreamConfig or its fields.

        The same configuration again is fine. With ``pedantic`` the server refuses what it would
        otherwise correct by itself (PedanticError, server 2.11).

        When a subject belongs to another stream, the error names that stream. The lookup takes up
        to a second more, within ``timeout``, and needs permission for ``STREAM.NAMES``; without it
        ``on_error`` gets the server's refusal of the lookup.

        Blocks up to ``timeout`` seconds (default: this object's). Raises StreamNameInUseError when
        a stream of this name has another configuration, InvalidStreamConfigError or another
        APIError; ConfigError and ApiLevelRequiredError (a field needs a newer server) before
        anything is sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        After TimeoutError or DisconnectedError it may have been done.
        """
        built = build(StreamConfig, config, fields)
        if built.sealed:
            raise ConfigError("StreamConfig.sealed: a stream can only be sealed by an update")
        return self._put_stream("CREATE", built, pedantic, self._api.deadline(timeout))

    @spells_out(StreamConfig)
    def update_stream(
        self,
        config: StreamConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[StreamFields],
    ) -> Stream:
        """Change a stream.

        With a ``config`` that becomes the configuration, keywords on top: what is not in it gets
        its default. With ``name=`` and keywords alone the configuration is read first and only
        those fields change; all others keep their values, also those that this version of jetsync
        does not know. Another client's change between the reading and the writing is overwritten.
        ``pedantic``, and a subject that belongs to another stream: as for :meth:`create_stream`.

        Blocks up to ``timeout`` seconds (default: this object's). Raises StreamNotFoundError,
        InvalidStreamConfigError or another APIError; ConfigError and ApiLevelRequiredError (a field
        needs a newer server) before the change is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        deadline = self._api.deadline(timeout)
        name = fields.get("name")
        if config is None and name is not None:
            found = stream_info(self._api, name, deadline.remaining())
            config = found.config
        built = build(StreamConfig, config, fields)
        return self._put_stream("UPDATE", built, pedantic, deadline)

    @spells_out(StreamConfig)
    def create_or_update_stream(
        self,
        config: StreamConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[StreamFields],
    ) -> Stream:
        """Make sure that a stream with exactly this configuration exists.

        What is not given gets its default, whether the stream was there or not. ``pedantic``, and a
        subject that belongs to another stream: as for :meth:`create_stream`.

        Blocks up to ``timeout`` seconds (default: this object's). Raises InvalidStreamConfigError
        or another APIError; ConfigError and ApiLevelRequiredError (a field needs a newer server)
        before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. After TimeoutError or DisconnectedError it may have been done.
        """
        built = build(StreamConfig, config, fields)
        deadline = self._api.deadline(timeout)
        try:
            return self._put_stream("UPDATE", built, pedantic, deadline)
        except StreamNotFoundError:
            return self._put_stream("CREATE", built, pedantic, deadline)

    def _put_stream(
        self, verb: str, config: StreamConfig, pedantic: bool, deadline: Deadline
    ) -> Stream:
        wire = config.to_wire(include_extra=verb == "UPDATE")
        self._api.check_needs(stream_needs(wire))
        if pedantic:
            self._api.require("pedantic", "2.11")
            wire["pedantic"] = True
        try:
            answer = self._api.request(
                f"STREAM.{verb}.{config.name}", wire, timeout=deadline.remaining()
            )
        except InvalidStreamConfigError as error:
            if error.err_code == _SUBJECTS_OVERLAP:
                tell_whose_subjects(self._api, error, config, deadline)
            raise
        return Stream(self, self._api, StreamInfo.from_wire(answer))

    def delete_stream(self, name: str, *, timeout: Seconds | None = None) -> None:
        """Delete a stream with everything in it.

        Blocks up to ``timeout`` seconds (default: this object's). Raises StreamNotFoundError or
        another APIError; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        self._api.request(f"STREAM.DELETE.{check_name('stream', name)}", timeout=timeout)

    def stream(self, name: str, *, timeout: Seconds | None = None) -> Stream:
        """Look a stream up.

        Blocks up to ``timeout`` seconds (default: this object's). Raises StreamNotFoundError or
        another APIError; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError.
        """
        return Stream(self, self._api, stream_info(self._api, name, timeout))

    def streams(
        self, subject: str | None = None, *, timeout: Seconds | None = None
    ) -> Iterator[StreamInfo]:
        """Iterate over all streams, or those that take messages of ``subject`` (wildcards allowed).

        In a cluster some servers may not answer in time. Streams that are missing for that are
        asked for one by one; if that fails too, JetStreamUnavailableError names them at the end.

        Blocks while it is iterated, up to ``timeout`` seconds (default: this object's) for each
        page. Raises then JetStreamUnavailableError or another APIError; ConfigError before anything
        is sent; TimeoutError, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        missing: set[str] = set()
        for item in self._api.pages(
            "STREAM.LIST", "streams", _filter(subject), timeout=timeout, missing=missing
        ):
            yield StreamInfo.from_wire(item)
        yield from fill_in(
            "streams",
            missing,
            lambda name, share: stream_info(self._api, name, share),
            self._api.deadline(timeout),
        )

    def stream_names(
        self, subject: str | None = None, *, timeout: Seconds | None = None
    ) -> Iterator[str]:
        """Iterate over the names of all streams, or those that take messages of ``subject``
        (wildcards allowed).

        Blocks while it is iterated, up to ``timeout`` seconds (default: this object's) for each
        page. Raises ConfigError at once for an invalid subject, then an APIError; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        return self._api.pages("STREAM.NAMES", "streams", _filter(subject), timeout=timeout)

    def stream_name_by_subject(self, subject: str, *, timeout: Seconds | None = None) -> str:
        """Return the name of the stream that stores a subject; of several, as there can be for a
        wildcard, the first one.

        Blocks up to ``timeout`` seconds (default: this object's). Raises StreamNotFoundError when
        there is none or another APIError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        for name in self.stream_names(subject, timeout=timeout):
            return name
        raise StreamNotFoundError(
            f"no stream takes messages on {subject!r}",
            code=404,
            err_code=10059,
            description="stream not found",
        )

    def restore_stream(
        self,
        folder: str | os.PathLike[str],
        *,
        config: StreamConfig | None = None,
        progress: Callable[[int, int], object] | None = None,
        timeout: Seconds = 3600.0,
    ) -> Stream:
        """Make a stream of a backup: of ``Stream.backup``, or of the ``nats`` command.

        ``config`` replaces the configuration, but for the name. ``progress`` gets the bytes that
        were sent and all of them, after each piece.

        Blocks up to ``timeout`` seconds (default: an hour). Raises ConfigError for what is no
        backup, for another name and for storage in memory; StreamNameInUseError; BackupError and
        the server's APIError when it gives up; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. A call that raises deletes what it made, in up to 5 seconds more, or
        says in a BackupError that the stream may be left; ``on_error`` gets that one when the call
        ended by an interrupt or its timeout before the server had answered.
        """
        name = restore(self._api, folder, config, progress, self._api.deadline(timeout))
        return self.stream(name)

    def account_info(self, *, timeout: Seconds | None = None) -> AccountInfo:
        """Return usage and limits of the account.

        Blocks up to ``timeout`` seconds (default: this object's). Raises JetStreamNotEnabledError
        or another APIError; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        return AccountInfo.from_wire(self._api.request("INFO", timeout=timeout, repeatable=True))

    def step_down_stream_leader(
        self, name: str, *, placement: Placement | None = None, timeout: Seconds | None = None
    ) -> None:
        """Let another server lead the stream: any, or one by ``placement`` (server 2.11).

        Blocks until the leader has agreed, not until there is a new one, up to ``timeout`` seconds
        (default: this object's). Raises ClusterError without a cluster, StreamNotFoundError or
        another APIError; ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        operation = f"STREAM.LEADER.STEPDOWN.{check_name('stream', name)}"
        step_down(self._api, operation, placement, timeout)

    def remove_stream_peer(self, name: str, peer: str, *, timeout: Seconds | None = None) -> None:
        """Take the server ``peer`` (its name or id) out of those that hold the stream; another
        takes its place.

        Blocks up to ``timeout`` seconds (default: this object's). Raises ClusterError without a
        cluster, or when no server is left for it, StreamNotFoundError or another APIError;
        ConfigError before anything is sent; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. After TimeoutError or DisconnectedError it may have been done.
        """
        self._api.request(
            f"STREAM.PEER.REMOVE.{check_name('stream', name)}", {"peer": peer}, timeout=timeout
        )


def _filter(subject: str | None) -> dict[str, Any] | None:
    return None if subject is None else {"subject": check_subscribe_subject(subject)}
