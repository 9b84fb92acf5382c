"""Direct get: stored messages from any server that holds them, one or many at a time (ADR-31)."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from jetsync._core.batch import last_of
from jetsync._core.stored import StoredFactory, parse_stored
from jetsync._deadline import Deadline
from jetsync.client import Msg
from jetsync.errors import (
    DirectGetNotAllowedError,
    DisconnectedError,
    LimitsExceededError,
    MessageNotFoundError,
    NoRespondersError,
    OutboundFullError,
    ProtocolError,
    TimeoutError,
)
from jetsync.errors.api import api_error
from jetsync.headers import Headers
from jetsync.jetstream._wire import parse_time, parse_time_ns
from jetsync.jetstream.api import API, reading
from jetsync.jetstream.config.stream import StreamConfig
from jetsync.jetstream.streams.direct_batch import UNACKNOWLEDGED, DirectBatch, DirectMsg
from jetsync.jetstream.streams.requests import stream_info

__all__ = ["StoredMsg", "get_from_leader", "get_one", "get_stored", "read_many"]

PAGE_BYTES = 8 * 2**20
"""The most that one request asks for: the server serves no other request meanwhile, and cuts off a
client that lets 64 MiB pile up."""
_DELAY = 0.1
_SILENCE = 1.0
"""Seconds after which an older server is asked why it does not answer a direct get."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_NOT_FOUND = 404
_NO_RESPONDERS = 503
_END = 204
_TOO_MANY = 413


@dataclasses.dataclass(frozen=True)
class StoredMsg:
    """A message as it is stored in its stream. ``time`` is when it was stored (UTC)."""

    subject: str
    seq: int
    data: bytes
    time: datetime | None
    raw_headers: bytes = b""
    time_ns: int | None = None
    """``time`` in nanoseconds since 1970."""
    stream: str = ""
    """The stream that it was read from: a mirror with ``mirror_direct`` answers direct gets of its
    origin under its own name."""

    @property
    def headers(self) -> Headers:
        """The headers; empty when there are none."""
        return Headers.parse(self.raw_headers)


def get_stored(
    api: API,
    config: StreamConfig,
    body: Mapping[str, Any],
    direct: bool | None,
    deadline: Deadline,
) -> StoredMsg:
    """Ask for one message: any server that holds the stream with ``direct``, or with None where its
    configuration allows that; else the leader. Blocks; see ``Stream.get_msg``."""
    try:
        return _get_stored(api, config, body, direct, deadline)
    except MessageNotFoundError as error:
        error.args = (f"{error} at {_described(body)}",)
        raise


def _described(body: Mapping[str, Any]) -> str:
    """The text of a request: a sequence or a subject."""
    if "last_by_subj" in body:
        return f"subject {body['last_by_subj']!r}"
    behind = f" or behind it on subject {body['next_by_subj']!r}" if "next_by_subj" in body else ""
    return f"sequence {body.get('seq')}{behind}"


def _get_stored(
    api: API,
    config: StreamConfig,
    body: Mapping[str, Any],
    direct: bool | None,
    deadline: Deadline,
) -> StoredMsg:
    if direct or (direct is None and config.allow_direct):
        try:
            return get_one(api, config.name, body, deadline)
        except DirectGetNotAllowedError:
            if direct:
                raise
    return get_from_leader(api, config.name, body, deadline)


def get_from_leader(
    api: API, stream: str, body: Mapping[str, Any], deadline: Deadline
) -> StoredMsg:
    """Ask the leader of a stream for one message; waits for an election to end. Blocks. Raises
    MessageNotFoundError."""
    operation = f"STREAM.MSG.GET.{stream}"
    answer = api.request(operation, body, timeout=deadline.remaining(), repeatable=True)
    with reading("a stored message"):
        message = answer.get("message") or {}
        return StoredMsg(
            subject=str(message.get("subject", "")),
            seq=int(message.get("seq", 0)),
            data=base64.b64decode(message.get("data") or ""),
            time=parse_time(message.get("time")),
            raw_headers=base64.b64decode(message.get("hdrs") or ""),
            time_ns=parse_time_ns(message.get("time")),
            stream=stream,
        )


def get_one(
    api: API,
    stream: str,
    body: Mapping[str, Any],
    deadline: Deadline,
    *,
    last_of: str | None = None,
) -> StoredMsg:
    """Ask any server that holds the stream for one message. Blocks.

    ``last_of`` instead of a ``body`` is a subject whose last message is wanted; it becomes a part
    of the request's subject, so that permissions can be given for single subjects.

    Raises MessageNotFoundError, DirectGetNotAllowedError, StreamNotFoundError, TimeoutError.
    """
    port = api.port
    subject = api.subject(f"DIRECT.GET.{stream}")
    payload = json.dumps(body).encode()
    if last_of is not None:
        subject, payload = f"{subject}.{last_of}", b""
    # A server before 2.11 does not say that it answers no direct gets of the stream.
    silence = math.inf if api.has("2.11") else _SILENCE
    while True:
        port.check()
        left = port.seconds(deadline.remaining())
        try:
            msg = port.request(subject, payload, min(left, silence))
            break
        except NoRespondersError:
            _explain(api, stream, deadline)
        except TimeoutError:
            if left <= silence:
                raise
            _explain(api, stream, deadline)
            silence = math.inf
        except DisconnectedError:
            if deadline.expired:
                raise
            port.sleep(deadline.within(_DELAY))
    stored = parse_stored(msg.raw_headers)
    if stored is None:
        raise _refusal(msg)
    answering, subject, seq, timestamp_ns, _, raw_headers = stored
    return StoredMsg(
        subject=subject,
        seq=seq,
        data=msg.data,
        time=_EPOCH + timedelta(microseconds=timestamp_ns // 1000),
        raw_headers=raw_headers,
        time_ns=timestamp_ns,
        stream=answering,
    )


def read_many(
    api: API,
    stream: str,
    body: Mapping[str, Any],
    deadline: Deadline,
    *,
    max_messages: int | None = None,
    max_bytes: int | None = None,
) -> DirectBatch:
    """Ask for many messages, page by page. Blocks until the last page came.

    ``body`` says which: ``seq`` and ``next_by_subj``, or ``multi_last``. Raises like
    :func:`get_one`, but nothing for "there are none", and once something came no TimeoutError
    either: then that is in ``error`` of the batch.
    """
    return _Reader(api, stream, dict(body), deadline, max_messages, max_bytes).read()


class _Reader:
    """One read over several pages: the next request and the messages so far."""

    def __init__(
        self,
        api: API,
        stream: str,
        body: dict[str, Any],
        deadline: Deadline,
        max_messages: int | None,
        max_bytes: int | None,
    ) -> None:
        self._api = api
        self._port = api.port
        self._stream = stream
        self._body = body
        self._deadline = deadline
        self._max_messages = max_messages
        self._bytes_left = max_bytes
        self._multi = "multi_last" in body
        self._batch: DirectBatch = DirectBatch()

    def read(self) -> DirectBatch:
        while True:
            before = self._batch.nbytes
            try:
                if self._step():
                    return self._batch
            except (DisconnectedError, OutboundFullError):
                # Messages that came over one link have no gap: go on behind them.
                if self._deadline.expired:
                    raise
                self._restart_if_open()
                if self._is_full(self._batch.nbytes - before):
                    return self._batch
                self._port.sleep(self._deadline.within(_DELAY))
            except TimeoutError as error:
                self._restart_if_open()
                if not len(self._batch):
                    raise
                self._batch.error = error
                self._count_pending()
                return self._batch
            last = self._batch.last_seq
            if last is not None:
                self._body["seq"] = last + 1

    def _is_full(self, came: int) -> bool:
        """Whether the read is complete; ``came`` bytes came of a page whose end is lost."""
        self._count_pending()
        if self._bytes_left is not None:
            self._bytes_left -= max(0, came)
            if self._bytes_left <= 0:
                return True
        return self._asked() == 0

    def _count_pending(self) -> None:
        """Read the number of remaining messages from the last one that came."""
        last = last_of(self._batch)
        if last is not None:
            self._batch.num_pending = last.metadata.num_pending

    def _step(self) -> bool:
        """Read one page; returns whether it was the last one."""
        before = len(self._batch)
        end = self._page()
        if end.status == _NO_RESPONDERS:
            _explain(self._api, self._stream, self._deadline)
            return False
        return self._ended(end, before)

    def _restart_if_open(self) -> None:
        """Drop the messages of a page without its end: they are of one moment, which only the end
        names."""
        if self._multi and "up_to_seq" not in self._body:
            self._batch = DirectBatch()

    def _asked(self) -> int | None:
        return None if self._max_messages is None else self._max_messages - len(self._batch)

    def _page_bytes(self) -> int:
        return PAGE_BYTES if self._bytes_left is None else min(PAGE_BYTES, self._bytes_left)

    def _page(self) -> Msg:
        """Ask for one page and take it in; returns the status that ended it."""
        port = self._port
        port.check()
        subject = self._api.subject(f"DIRECT.GET.{self._stream}")
        body = {**self._body, "max_bytes": self._page_bytes()}
        if self._max_messages is not None:
            body["batch"] = self._asked()
        with port.open_reply(subject) as reply:
            mailbox = reply.mailbox
            if not len(self._batch):
                factory = StoredFactory(DirectMsg, port.connection, UNACKNOWLEDGED)
                self._batch = mailbox.new_batch(DirectBatch, None, factory)
            payload = json.dumps(body).encode()
            port.send(subject, payload, reply.subject, seconds=self._deadline.remaining())
            while True:
                # One more than can come, so that the status behind the last one is read too.
                room = len(self._batch) + (self._asked() or 1 << 40) + 1
                left = self._deadline.remaining()
                for status in mailbox.take_into(self._batch, room, left):
                    return status
                if mailbox.error is not None and not mailbox.pending_messages:
                    raise mailbox.error
                if self._deadline.expired:
                    raise TimeoutError(
                        f"stream {self._stream!r}: the direct get was not answered in time",
                        operation="direct get",
                    )

    def _ended(self, end: Msg, before: int) -> bool:
        """Handle the status at the end of a page; returns whether the page was the last one."""
        batch = self._batch
        if end.status == _NOT_FOUND:
            self._count_pending()
            return len(batch) > 0 or not self._is_beyond_end()
        if end.status != _END:
            raise _refusal(end)
        headers = end.headers
        came = len(batch) - before
        with reading("the end of a direct get"):
            pending = int(headers.get("Nats-Num-Pending", "0"))
            last = int(headers.get("Nats-Last-Sequence", "0"))
            if self._multi:
                batch.up_to_seq = self._body["up_to_seq"] = int(headers["Nats-UpTo-Sequence"])
                self._body.pop("up_to_time", None)
        batch.num_pending = pending
        if came and batch.last_seq != last:
            raise ProtocolError("messages of a direct get were lost on their way")
        if not came or not pending or self._asked() == 0:
            return True
        if self._bytes_left is not None:
            # It ended early because of the limit of bytes.
            self._bytes_left -= self._page_bytes()
            return self._bytes_left <= 0
        return False

    def _is_beyond_end(self) -> bool:
        """Whether the messages up to a sequence are asked for that the stream does not have yet:
        servers find none then in a store on disk. Now those up to its last one are asked for."""
        wanted: int = self._body.get("up_to_seq", 0)
        if not wanted:
            return False
        info = stream_info(self._api, self._stream, self._deadline.remaining())
        self._body["up_to_seq"] = last = min(wanted, info.state.last_seq)
        return 0 < last < wanted


def _explain(api: API, stream: str, deadline: Deadline) -> None:
    """Handle a direct get without a responder: raise the reason, or wait if it is temporary."""
    config = stream_info(api, stream, deadline.remaining()).config
    if not config.allow_direct:
        raise DirectGetNotAllowedError(
            f"stream {stream!r} answers no direct gets: update it with allow_direct=True, or read "
            "its messages one by one with get_msg()"
        )
    if deadline.expired:
        raise TimeoutError(
            f"no server answers direct gets of stream {stream!r} at the moment",
            operation="direct get",
        )
    api.port.sleep(deadline.within(_DELAY))


def _refusal(msg: Msg) -> Exception:
    """The error for a status that answered a direct get."""
    if msg.status == _NOT_FOUND:
        return MessageNotFoundError(
            code=_NOT_FOUND, err_code=10037, description=msg.description.lower()
        )
    if msg.status == _TOO_MANY:
        return LimitsExceededError(
            "more than 1024 subjects match: ask for fewer at a time (their names are in "
            "Stream.info(subjects_filter=...).state.subjects)",
            code=_TOO_MANY,
            description=msg.description,
        )
    if not msg.status:
        return ProtocolError("a direct get was answered without Nats-Stream and Nats-Sequence")
    return api_error({"code": msg.status, "description": msg.description or "direct get refused"})
