"""Backups of streams: the server's snapshot in a folder, and streams made of such folders.

A folder holds ``backup.json`` (``{"config", "state"}``) and ``stream.tar.s2``, byte for byte what
the server sent, as the ``nats`` command has them: either reads what the other one wrote.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from jetsync._counted import counted
from jetsync._deadline import Deadline
from jetsync._files import whole_file
from jetsync.client.link_inbox import LinkInbox
from jetsync.errors import (
    APIError,
    BackupError,
    ConfigError,
    Error,
    StreamNotFoundError,
    TimeoutError,
)
from jetsync.errors.api import api_error
from jetsync.jetstream.api import API, decode, reading
from jetsync.jetstream.config.stream import StreamConfig
from jetsync.jetstream.config.stream_info import StreamState
from jetsync.jetstream.streams.requests import stream_info
from jetsync.protocol.subjects import check_name

if TYPE_CHECKING:
    from jetsync.client import Msg
    from jetsync.client.port import Exchange

__all__ = ["BackupInfo", "back_up", "restore", "saved_config"]

Progress = Callable[[int, int], object]

_META, _DATA = "backup.json", "stream.tar.s2"
_SILENCE = 30.0
"""Seconds without a piece after which a backup without a timeout gives up."""
_CHECKING = 86_400.0
"""Seconds that the server may read all messages to check them, without a timeout."""
_PIECE = 65_536
_UNDER_WAY = 8
"""Pieces of a restore that the server has not confirmed."""
_UNDO = 5.0
"""Seconds in which the stream of a failed restore is deleted."""
_LAST_WORD = 0.05
"""Seconds for which an interrupt or the end of the time is held up, so that the answer of a server
nearby can still tell whether it has begun a restore."""


@dataclass(frozen=True)
class BackupInfo:
    """The contents of a backup: configuration and state of the stream, ``bytes`` of the snapshot,
    and the ``seconds`` that it took."""

    config: StreamConfig
    state: StreamState
    bytes: int
    seconds: float


def back_up(
    api: API,
    name: str,
    folder: str | os.PathLike[str],
    *,
    consumers: bool,
    check: bool,
    chunk_size: int,
    window_size: int,
    progress: Progress | None,
    deadline: Deadline,
) -> BackupInfo:
    """Write a backup. See ``Stream.backup``."""
    place = Path(folder)
    for name_there in (_META, _DATA):
        if os.path.lexists(place / name_there):
            raise ConfigError(f"{str(place)!r} holds a backup already: choose another folder")
    begun = time.monotonic()
    request: dict[str, Any] = {
        "chunk_size": chunk_size,
        "window_size": window_size,
        "no_consumers": not consumers,
        "jsck": check,
    }
    operation = f"STREAM.SNAPSHOT.{check_name('stream', name)}"
    place.mkdir(parents=True, exist_ok=True)
    with whole_file(place / _DATA) as file, LinkInbox(api.port, "backup") as pieces:
        # A literal subject: for one below a wildcard the server waits two seconds for interest.
        request["deliver_subject"] = pieces.subject
        first = deadline.within(_CHECKING if check else _SILENCE)
        # Without a link the request would wait for the next one, over which no piece comes.
        pieces.check()
        answer = api.request(operation, request, timeout=first)
        with reading("the answer to STREAM.SNAPSHOT"):
            about = {"config": answer["config"], "state": answer["state"]}
            config = StreamConfig.from_wire(about["config"])
            state = StreamState.from_wire(about["state"])
        total = _receive(pieces, file, state.bytes, progress, deadline)
    try:
        with whole_file(place / _META) as file:
            file.write(json.dumps(about).encode())
    except BaseException:
        (place / _DATA).unlink()
        raise
    return BackupInfo(config, state, total, time.monotonic() - begun)


def _receive(
    pieces: LinkInbox,
    file: BinaryIO,
    expected: int,
    progress: Progress | None,
    deadline: Deadline,
) -> int:
    total = 0
    while True:
        msg = pieces.mailbox.get(deadline.within(_SILENCE))
        if msg is None:
            pieces.check()
            text = f"no more of the snapshot came, after {counted(total, 'byte', form=',')}"
            raise TimeoutError(text, operation="backup")
        if msg.status not in (0, 204):
            raise BackupError(f"the server ended the snapshot: {msg.status} {msg.description}")
        if not msg.data:
            return total
        # First the confirmation: the server sends the next piece while this one is written.
        if msg.reply is not None:
            pieces.send(msg.reply)
        file.write(msg.data)
        total += len(msg.data)
        if progress is not None:
            progress(total, expected)


def restore(
    api: API,
    folder: str | os.PathLike[str],
    config: StreamConfig | None,
    progress: Progress | None,
    deadline: Deadline,
) -> str:
    """Make a stream of a backup, and return its name. See ``JetStream.restore_stream``."""
    place = Path(folder)
    about = _read(place / _META)
    name = check_name("stream", about["config"].get("name"))
    if config is not None:
        about["config"] = config.to_wire(include_extra=True)
    if about["config"].get("name") != name:
        raise ConfigError(f"a backup of stream {name!r} cannot be restored under another name")
    if about["config"].get("storage") == "memory":
        raise ConfigError("a backup cannot be restored into memory: give storage='file'")
    try:
        size = (place / _DATA).stat().st_size
        file = (place / _DATA).open("rb")
    except OSError as error:
        raise ConfigError(f"{str(place / _DATA)!r} cannot be read: {error.strerror}") from error
    with file:
        request = {"config": about["config"], "state": about["state"]}
        subject = _begin(api, name, request, deadline)
        making = False
        try:
            _send(api, subject, file, size, progress, deadline)
            making = True
            last = api.port.request(subject, b"", api.port.seconds(deadline.remaining()))
            making = False
            _refusal(last)
            _check_whole(api, name, about, config is None, deadline)
        except BaseException as error:
            # The server accepted the restore, so no stream had this name: what is there is of it.
            failure = _undo(api, name, subject, making)
            if failure is None:
                raise
            left = _left(name, failure)
            if not isinstance(error, Exception):
                api.port.report(left)
                raise
            raise left from error
    return name


def _begin(api: API, name: str, request: dict[str, Any], deadline: Deadline) -> str:
    """Ask the server to begin a restore, and return the subject of the pieces.

    A restore that begins behind an interrupt or a timeout is undone if its answer comes within
    ``_LAST_WORD`` seconds: only the answer tells it from a stream that another client has made.
    Without one the user is told that the stream may be left.
    """
    operation = f"STREAM.RESTORE.{name}"
    data = json.dumps(request).encode()
    with api.port.exchange(api.subject(operation), data, wild=True) as exchange:
        try:
            answer = api.request(operation, timeout=deadline.remaining(), ahead=exchange)
        except BaseException as error:
            if not isinstance(error, Error) or isinstance(error, TimeoutError):
                failure = _undo_late(api, name, operation, exchange)
                if failure is not None:
                    api.port.report(_left(name, failure))
            raise
    return _pieces(answer)


def _undo_late(api: API, name: str, operation: str, exchange: Exchange) -> Error | None:
    """Undo a restore that the server may have begun. Returns why that was not possible."""
    try:
        answer = decode(exchange.another(Deadline(_LAST_WORD)).data, operation)
    except APIError:
        return None  # it has refused
    except Error as error:
        return error
    return _undo(api, name, _pieces(answer), False)


def _pieces(answer: dict[str, Any]) -> str:
    """The subject that the server takes the pieces of a backup on."""
    with reading("the answer to STREAM.RESTORE"):
        return str(answer["deliver_subject"])


def _left(name: str, failure: Error) -> BackupError:
    text = f"the restore failed, and stream {name!r} may be left, in part: delete it"
    return BackupError(f"{text} ({failure})")


def _check_whole(
    api: API, name: str, about: dict[str, Any], same: bool, deadline: Deadline
) -> None:
    """Raise BackupError when the restored stream has less than the one that was backed up.

    Messages that the configuration may have removed meanwhile are not missed."""
    with reading("the state in the backup"):
        saved = StreamState.from_wire(about["state"])
    info = stream_info(api, name, deadline.remaining())
    config, state = info.config, info.state
    keeps = (
        same and config.retention == "limits" and not config.max_age and not config.allow_msg_ttl
    )
    fewer = state.last_seq == saved.last_seq and state.messages < saved.messages
    if state.last_seq < saved.last_seq or (keeps and fewer):
        raise BackupError(
            f"the restored stream has {counted(state.messages, 'message', form=',')} up to "
            f"{state.last_seq:,}, the backup {saved.messages:,} up to {saved.last_seq:,}: the data "
            "file is damaged"
        )


def _undo(api: API, name: str, subject: str, making: bool) -> Error | None:
    """Delete what a failed restore has made, over this link or the next one. Returns why that was
    not possible. Blocks up to ``_UNDO`` seconds. ``making``: the server has everything, and the
    stream may appear later than this call."""
    deadline = Deadline(_UNDO)
    while True:
        try:
            # A piece without a reply subject ends a restore that waits for more.
            api.port.send(subject, b"end", seconds=deadline.remaining())
            api.request(f"STREAM.DELETE.{name}", timeout=deadline.remaining())
            return None
        except Error as error:
            if isinstance(error, StreamNotFoundError) and not making:
                return None
            if deadline.expired or api.port.closed:
                return error
        api.port.sleep(deadline.within(0.1))


def _send(
    api: API,
    subject: str,
    file: BinaryIO,
    size: int,
    progress: Progress | None,
    deadline: Deadline,
) -> None:
    port = api.port
    piece = min(_PIECE, port.connection.max_payload)
    sent = confirmed = done = 0
    with port.open_reply(subject) as reply:

        def put(data: bytes) -> None:
            port.send(subject, data, f"{reply.subject}-{sent}", seconds=deadline.remaining())

        def answer() -> Msg:
            msg = reply.mailbox.get(deadline.within(_SILENCE))
            if msg is None:
                sent = counted(done, "byte", form=",")
                text = f"the server did not confirm what was sent, after {sent}"
                raise reply.mailbox.error or TimeoutError(text, operation="restore_stream")
            return msg

        while data := file.read(piece):
            if sent - confirmed == _UNDER_WAY:
                _refusal(answer())
                confirmed += 1
            put(data)
            sent += 1
            done += len(data)
            if progress is not None:
                progress(done, size)
            if sent == 1:
                # Alone, since it comes again: in a cluster the server of this link may not know yet
                # that another one takes the pieces.
                grace = Deadline(_UNDO)
                while (msg := answer()).status == 503 and not grace.expired:
                    port.sleep(deadline.within(0.05))
                    put(data)
                _refusal(msg)
                confirmed += 1
        for _ in range(sent - confirmed):
            _refusal(answer())


def _refusal(msg: Msg) -> None:
    """Raise what an answer of a restore says, if that is an error."""
    if msg.status:
        raise BackupError(f"the server ended the restore: {msg.status} {msg.description}")
    if msg.data.startswith(b"-ERR"):
        raise BackupError(f"the server ended the restore: {msg.data[4:].decode(errors='replace')}")
    if msg.data.startswith(b"{"):
        try:
            error = json.loads(msg.data).get("error")
        except ValueError:
            error = None
        if error:
            raise api_error(error, "STREAM.RESTORE")


def saved_config(folder: str | os.PathLike[str]) -> StreamConfig:
    """Return the configuration of the stream in a backup. Raises ConfigError."""
    with reading("the configuration in the backup"):
        return StreamConfig.from_wire(_read(Path(folder) / _META)["config"])


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{str(path)!r} is no backup: {error}") from error
    if not isinstance(found, dict) or not all(
        isinstance(found.get(key), dict) for key in ("config", "state")
    ):
        raise ConfigError(f"{str(path)!r} is no backup: it has no config and state")
    return found
