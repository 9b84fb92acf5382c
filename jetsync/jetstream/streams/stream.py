"""Stream: a handle on one stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds
from jetsync._handles import Handle
from jetsync._numbers import check_whole
from jetsync.errors import ConfigError, MessageNotFoundError, StoreFailedError
from jetsync.jetstream._wire import UINT64_MAX, format_time
from jetsync.jetstream.api import API
from jetsync.jetstream.config.stream_info import StreamInfo
from jetsync.jetstream.streams.backup import BackupInfo, back_up
from jetsync.jetstream.streams.direct import StoredMsg, get_stored, read_many
from jetsync.jetstream.streams.direct_batch import DirectBatch
from jetsync.jetstream.streams.requests import stream_info
from jetsync.jetstream.streams.stream_consumers import StreamConsumers
from jetsync.protocol.subjects import check_subscribe_subject

if TYPE_CHECKING:
    from jetsync.jetstream.streams.manager import StreamManager

__all__ = ["StoredMsg", "Stream"]

_NOT_THERE = ("no message found", "stream store EOF")
"""Answers to the deletion of a message below the first sequence or above the last one. For one
between them that is gone the server has an ``err_code``."""


class Stream(Handle, StreamConsumers):
    """A stream. Made by the stream calls of ``JetStream``. Thread-safe; every call blocks.

    Each call takes ``timeout`` in seconds (default: the JetStream object's) and raises the APIError
    subclass of the server's answer, or TimeoutError.
    """

    def __init__(self, js: StreamManager, api: API, info: StreamInfo) -> None:
        self._js = js
        self._api = api
        self._info = info
        self.name: str = info.config.name

    @property
    def cached_info(self) -> StreamInfo:
        """The last info from the server. Does not block."""
        return self._info

    def info(
        self,
        *,
        subjects_filter: str | None = None,
        deleted_details: bool = False,
        timeout: Seconds | None = None,
    ) -> StreamInfo:
        """Ask the leader about the stream.

        With ``subjects_filter`` the message counts per matching subject come along (every page of
        them), with ``deleted_details`` the sequences of interior deletes.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        StreamNotFoundError or another APIError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        self._info = stream_info(
            self._api,
            self.name,
            timeout,
            subjects_filter=subjects_filter,
            deleted=deleted_details,
        )
        return self._info

    def purge(
        self,
        *,
        subject: str | None = None,
        keep: int | None = None,
        seq: int | None = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Remove messages: all, those of a ``subject`` (wildcards allowed), all but the last
        ``keep``, or those below ``seq``. Returns how many were removed.

        ``subject`` goes together with the others, which then count within it.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        StreamNotFoundError or another APIError (a stream with ``deny_purge`` or that is sealed
        refuses); ConfigError before anything is sent; TimeoutError, DisconnectedError,
        PermissionsError, ConnectionClosedError. After TimeoutError or DisconnectedError it may have
        been done.
        """
        if keep is not None and seq is not None:
            raise ConfigError("give either keep or seq, not both")
        if keep is not None:
            check_whole("keep", keep, least=0)
        if subject is not None:
            check_subscribe_subject(subject)
        if seq is not None:
            _sequence("seq", seq)
        body = {"filter": subject, "keep": keep, "seq": seq}
        answer = self._api.request(
            f"STREAM.PURGE.{self.name}",
            {name: value for name, value in body.items() if value is not None},
            timeout=timeout,
        )
        return int(answer.get("purged", 0))

    def get_msg(
        self,
        seq: int,
        *,
        next_by_subject: str | None = None,
        direct: bool | None = False,
        timeout: Seconds | None = None,
    ) -> StoredMsg:
        """Return the message with this sequence, or with ``next_by_subject`` the first one of that
        subject (wildcards allowed) at or after it.

        The leader is asked, which knows of every acknowledged publish. With ``direct=True`` any
        server that holds the stream answers, a mirror with ``mirror_direct`` too (ADR-31): that
        spares the leader, but one that is behind may not have the message yet. ``direct=None`` does
        so where the stream has ``allow_direct`` and asks the leader elsewhere.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        MessageNotFoundError, StreamNotFoundError or another APIError, with ``direct=True``
        DirectGetNotAllowedError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        body: dict[str, Any] = {"seq": _sequence("seq", seq)}
        if next_by_subject is not None:
            body["next_by_subj"] = check_subscribe_subject(next_by_subject)
        return get_stored(self._api, self._info.config, body, direct, self._api.deadline(timeout))

    def get_last_msg(
        self, subject: str, *, direct: bool | None = False, timeout: Seconds | None = None
    ) -> StoredMsg:
        """Return the last message of a subject (wildcards allowed).

        ``direct`` as for :meth:`get_msg`: True lets any server that holds the stream answer, and
        one that is behind answers with an older message; None does so where the stream has
        ``allow_direct``.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        MessageNotFoundError, StreamNotFoundError or another APIError, with ``direct=True``
        DirectGetNotAllowedError; ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        body = {"last_by_subj": check_subscribe_subject(subject)}
        return get_stored(self._api, self._info.config, body, direct, self._api.deadline(timeout))

    def get_msgs(
        self,
        start_seq: int,
        *,
        max_messages: int,
        max_bytes: int | None = None,
        subject: str | None = None,
        timeout: Seconds | None = None,
    ) -> DirectBatch:
        """Return stored messages from ``start_seq`` on, without a consumer (batched direct get,
        ADR-31).

        At most ``max_messages``, of one ``subject`` (wildcards allowed) if given. ``max_bytes`` of
        subjects, headers and payloads: the one that reaches it is the last. Removed messages are
        stepped over. ``num_pending`` of the batch says how many more there were; go on at
        ``last_seq + 1``. If the time was up before the end of the batch, ``error`` has the
        TimeoutError.

        Needs server 2.11 and ``allow_direct``. Any server that holds the stream answers, a mirror
        with ``mirror_direct`` too; one that is behind has fewer messages to give. So an empty batch
        or ``num_pending == 0`` is no proof that the leader has no more: compare :meth:`info`.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        DirectGetNotAllowedError, StreamNotFoundError or another APIError; ConfigError and
        ApiLevelRequiredError (an older server) before anything is sent; TimeoutError if nothing
        came, DisconnectedError, PermissionsError, ConnectionClosedError.
        """
        body: dict[str, Any] = {"seq": _sequence("start_seq", start_seq)}
        check_whole("max_messages", max_messages)
        if max_bytes is not None:
            check_whole("max_bytes", max_bytes)
        if subject is not None:
            body["next_by_subj"] = check_subscribe_subject(subject)
        self._api.require("Stream.get_msgs", "2.11")
        return read_many(
            self._api,
            self.name,
            body,
            self._api.deadline(timeout),
            max_messages=max_messages,
            max_bytes=max_bytes,
        )

    def get_last_msgs(
        self,
        subjects: str | Sequence[str],
        *,
        up_to_seq: int | None = None,
        up_to_time: datetime | None = None,
        timeout: Seconds | None = None,
    ) -> DirectBatch:
        """Return the last message of each subject (wildcards allowed), in the stream's order
        (ADR-31).

        All as of one moment: now, or ``up_to_seq`` or ``up_to_time``, if given; ``up_to_seq`` of
        the batch says which. Subjects without a message are not there. If the time was up before
        the end of the batch, ``error`` has the TimeoutError. Needs server 2.11 and
        ``allow_direct``; any server that holds the stream answers, as for :meth:`get_msgs`.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        LimitsExceededError when more than 1,024 subjects match, DirectGetNotAllowedError,
        StreamNotFoundError or another APIError; ConfigError and ApiLevelRequiredError (an older
        server) before anything is sent; TimeoutError if nothing came, DisconnectedError,
        PermissionsError, ConnectionClosedError.
        """
        wanted = [subjects] if isinstance(subjects, str) else list(subjects)
        if not wanted:
            raise ConfigError("subjects is empty: give at least one")
        body: dict[str, Any] = {"multi_last": [check_subscribe_subject(one) for one in wanted]}
        if up_to_seq is not None and up_to_time is not None:
            raise ConfigError("give either up_to_seq or up_to_time, not both")
        if up_to_seq is not None:
            body["up_to_seq"] = _sequence("up_to_seq", up_to_seq)
        if up_to_time is not None:
            body["up_to_time"] = format_time(up_to_time)
        self._api.require("Stream.get_last_msgs", "2.11")
        return read_many(self._api, self.name, body, self._api.deadline(timeout))

    def delete_msg(self, seq: int, *, secure: bool = False, timeout: Seconds | None = None) -> None:
        """Delete one message; ``secure`` also overwrites its bytes on disk, which takes longer.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        MessageNotFoundError, StreamNotFoundError or another APIError (a stream with ``deny_delete``
        or that is sealed refuses); ConfigError before anything is sent; TimeoutError,
        DisconnectedError, PermissionsError, ConnectionClosedError. After TimeoutError or
        DisconnectedError it may have been done.
        """
        body: dict[str, Any] = {"seq": _sequence("seq", seq)}
        if not secure:
            body["no_erase"] = True
        try:
            self._api.request(f"STREAM.MSG.DELETE.{self.name}", body, timeout=timeout)
        except StoreFailedError as error:
            if error.description not in _NOT_THERE:
                raise
            raise MessageNotFoundError(
                f"stream {self.name!r}: sequence {seq} not found (err_code {error.err_code})",
                code=error.code,
                err_code=error.err_code,
                description=error.description,
            ) from error

    def delete(self, *, timeout: Seconds | None = None) -> None:
        """Delete the stream with everything in it.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        StreamNotFoundError or another APIError; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError. After TimeoutError or DisconnectedError it may have been done.
        """
        self._js.delete_stream(self.name, timeout=timeout)

    # -- backup ----------------------------------------------------------------------------------

    def backup(
        self,
        folder: str | os.PathLike[str],
        *,
        consumers: bool = True,
        check: bool = False,
        chunk_size: int = 131_072,
        window_size: int = 8 * 2**20,
        progress: Callable[[int, int], object] | None = None,
        timeout: Seconds | None = None,
    ) -> BackupInfo:
        """Write a backup of the stream into a folder, which is made if it is not there.

        It holds ``backup.json`` and ``stream.tar.s2``, which ``JetStream.restore_stream`` and the
        ``nats`` command read; nothing of it stays when the call raises. ``consumers``: theirs too.
        ``check``: the server checks every message first. The server sends pieces of ``chunk_size``
        bytes, at most ``window_size`` of them unconfirmed. ``progress`` gets the bytes so far and
        those of the stream, after each piece.

        Blocks up to ``timeout`` seconds; None: as long as pieces keep coming (30 seconds without
        one raise TimeoutError). Raises ConfigError for a folder with a backup, BackupError when the
        server gives up, StreamNotFoundError, DisconnectedError, OSError.
        """
        return back_up(
            self._api,
            self.name,
            folder,
            consumers=consumers,
            check=check,
            chunk_size=chunk_size,
            window_size=window_size,
            progress=progress,
            deadline=Deadline(timeout),
        )

    def __repr__(self) -> str:
        return f"Stream({self.name!r})"


def _sequence(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= UINT64_MAX:
        raise ConfigError(f"{name} must be a stream sequence (1 or more), got {value!r}")
    return value
