"""PublishBatch: messages that are stored together or not at all (ADR-50)."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._core.arrow_rows import ArrowRows
from jetsync._core.batch_rows import encode_batch_rows
from jetsync._core.encoding import encode_headers, encode_message
from jetsync._core.ids import next_nuid
from jetsync._counted import counted
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._handles import Handle
from jetsync._locks import lock
from jetsync._signatures import check_options, spells_out
from jetsync.errors import (
    APIError,
    ApiLevelRequiredError,
    ConfigError,
    DisconnectedError,
    Error,
    MaxPayloadError,
    NoRespondersError,
    NotStoredError,
    PublishUnknownError,
    TimeoutError,
)
from jetsync.headers import HeaderInput
from jetsync.jetstream.api import API
from jetsync.jetstream.publish.arrow import ArrowData, record_batches
from jetsync.jetstream.publish.counting import PublishCounts
from jetsync.jetstream.publish.headers import (
    PublishOptions,
    publish_headers,
    publish_needs,
    stream_header,
)
from jetsync.jetstream.publish.many import subject_column
from jetsync.jetstream.publish.order import await_turn
from jetsync.jetstream.publish.outcome import PERSISTENCE, Verdict, failure, judge
from jetsync.jetstream.publish.puback import PubAck, decode_puback
from jetsync.jetstream.publish.whose import Whose

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync.client.port import Port

__all__ = ["PublishBatch", "ended_by"]

_API_LEVEL = 2


class PublishBatch(Handle):
    """An atomic batch. Made by ``JetStream.batch``. Thread-safe.

    ``with js.batch() as batch: batch.add(...)`` commits at the end, and discards on an exception.
    Messages are kept here until the commit sends all of them at once: a batch that is discarded,
    forgotten or overtaken by a lost connection leaves nothing in the stream. They get consecutive
    sequences; consumers never see a part of them.
    """

    ack: PubAck | None = None
    """The confirmation, once the batch is committed."""

    def __init__(self, port: Port, api: API, timeout: float) -> None:
        self._port = port
        self._api = api
        self._timeout = timeout
        self._lock = lock("jetstream/publish/batch.py _lock")
        self._messages: list[_Message | _Rows] = []
        self._count = 0
        self._over: str | None = None

    @spells_out(publish_headers)
    def add(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput | None = None,
        msg_id: str | None = None,
        **options: Unpack[PublishOptions],
    ) -> None:
        """Add a message. ``options`` are those of ``JetStream.publish`` (``ttl``, ``expected_*``
        and so on); the server checks conditions at the commit, ``expected_last_seq`` only on the
        first message. With a ``msg_id`` the batch can be repeated safely. Sends nothing and does
        not block.

        Raises ConfigError, MaxPayloadError for a message that cannot be sent; the batch can still
        be used then. All subjects have to belong to one stream, which takes up to 1,000 messages.
        """
        check_options("add", options, PublishOptions)
        merged, _ = publish_headers(headers, msg_id=msg_id, **options)
        self._api.check_needs(publish_needs(options))
        with self._lock:
            self._refuse_when_over()
            # Encoded only to check it: the frame depends on the last message of the batch.
            trial = {**merged, **_batch_headers(next_nuid(), self._count + 1, True)}
            limit = self._port.connection.max_payload
            line = self._port.outbound.max_control_line
            encode_message(subject, data, "reply", encode_headers(trial), limit, line)
            self._hold(_Message(subject, bytes(data), merged))

    def add_arrow(
        self,
        batch: ArrowData,
        *,
        subject: str | None = None,
        data: str = "data",
        headers: str | None = None,
        msg_id: str | None = None,
        expected_stream: str | None = None,
    ) -> None:
        """Add the rows of a pyarrow RecordBatch or Table, or of anything else that gives Arrow
        columns, such as a Polars or pandas frame; builds no Python object per row.

        ``subject`` is a column when the batch has one of that name, else the constant subject
        (None: the column ``subject``); ``data``, ``headers`` (map<string, string> or map<string,
        list<string>>, or binary) and ``msg_id`` are columns. With ``expected_stream``
        the batch is refused where another stream would take it. Sends nothing and does not block.

        Raises ConfigError for a missing column. Rows are read by :meth:`commit`, which raises
        ConfigError or MaxPayloadError for one that cannot be sent, before anything is sent.
        """
        fixed = stream_header(expected_stream)
        pieces = record_batches(batch, (subject or "subject", data, headers, msg_id))
        made = [_Rows(ArrowRows(one), subject, data, headers, msg_id, fixed) for one in pieces]
        with self._lock:
            self._refuse_when_over()
            for rows in made:
                if rows.count:
                    self._hold(rows)

    @spells_out(publish_headers)
    def commit(
        self,
        subject: str | None = None,
        data: bytes = b"",
        *,
        timeout: Seconds | None = None,
        headers: HeaderInput | None = None,
        msg_id: str | None = None,
        **options: Unpack[PublishOptions],
    ) -> PubAck:
        """Store the batch and return the confirmation: ``seq`` is the last message's, ``count`` how
        many there are. With a ``subject`` a last message is added first, as :meth:`add` does.

        Blocks up to ``timeout`` seconds (default: the batch's). Raises NotStoredError when nothing
        is stored (APIError subclasses among them: BatchPublishError, WrongLastSequenceError),
        PublishUnknownError when all of it may be, never a part. The batch is over in any case,
        except after ConfigError. Give messages a ``msg_id`` to be able to repeat a batch safely:
        one that is stored already is then refused as a whole (err_code 10201).
        """
        check_options("commit", options, PublishOptions)
        if subject is not None:
            self.add(subject, data, headers=headers, msg_id=msg_id, **options)
        elif data or headers or msg_id or options:
            raise ConfigError("a last message needs a subject")
        seconds = self._timeout if timeout is None else to_seconds(timeout)
        with self._lock:
            self._refuse_when_over()
            if not self._messages:
                raise ConfigError("the batch is empty: add messages first")
            self._over = "committed"
            messages, self._messages, self._count = self._messages, [], 0
        self.ack = self._store(messages, Deadline(seconds), seconds)
        return self.ack

    def discard(self) -> None:
        """Forget the messages. Nothing was sent. Does nothing when the batch is over."""
        with self._lock:
            if self._over is None:
                self._over = "discarded"
                self._messages, self._count = [], 0

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"PublishBatch({counted(self._count, 'message')}, {self._over or 'open'})"

    def __enter__(self) -> PublishBatch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None and self._over is None and self._messages:
            self.commit()
        else:
            self.discard()

    def _hold(self, message: _Message | _Rows) -> None:
        self._messages.append(message)
        self._count += message.count

    def _refuse_when_over(self) -> None:
        if self._over is not None:
            raise ConfigError(f"the batch was {self._over} already; begin a new one")

    # -- storing ---------------------------------------------------------------------------------

    def _store(
        self, messages: list[_Message | _Rows], deadline: Deadline, seconds: float
    ) -> PubAck:
        counts = self._port.counted(PublishCounts)
        count = sum(message.count for message in messages)
        try:
            ack = self._try_to_store(messages, deadline, seconds)
        except (NotStoredError, PublishUnknownError) as error:
            counts.failed(error, count)
            raise
        counts.stored(count)
        return ack

    def _try_to_store(
        self, messages: list[_Message | _Rows], deadline: Deadline, seconds: float
    ) -> PubAck:
        last: Error = DisconnectedError("there was no connection to send it on")
        while True:
            while not self._port.linked and not deadline.expired:
                self._port.check()
                self._port.sleep(deadline.within(PERSISTENCE.link_wait))
            if not await_turn(self._port, deadline) or deadline.expired:
                break
            self._check_level()
            try:
                return self._attempt(messages, deadline)
            except (ConfigError, MaxPayloadError):
                raise  # a row that cannot be sent: nothing was
            except Error as error:
                verdict = judge(error)
                # A refusal is one of the whole batch, so it can be sent again as another batch.
                # After silence it cannot: the stream does not drop a second copy of a batch.
                if verdict.maybe_stored or not verdict.again:
                    raise _failure(f"{error}; of the batch", error, verdict) from error
                last = error
            self._port.sleep(deadline.within(PERSISTENCE.refused_wait))
        text = f"the batch was not stored within {seconds:g} s: {last}"
        raise _failure(text, last, judge(last), at_once=False) from last

    def _check_level(self) -> None:
        info = self._port.connection.server_info
        if info is not None and info.api_lvl < _API_LEVEL:
            # An older server would store the messages one by one.
            text = "atomic batches need nats-server 2.12 or newer"
            error = ApiLevelRequiredError(text, code=412, err_code=10185)
            raise _failure(text, error, judge(error))

    def _attempt(self, messages: list[_Message | _Rows], deadline: Deadline) -> PubAck:
        port = self._port
        batch = next_nuid()
        subject = messages[-1].last_subject
        whose = Whose(self._api)
        with port.open_reply(subject) as reply:
            pieces: list[tuple[bytes, int]] = []
            number = 1
            for message in messages:
                answers = reply.subject if message is messages[-1] else None
                limits = port.connection.max_payload, port.outbound.max_control_line
                pieces += message.encode(batch, number, answers, limits)
                number += message.count
            for frames, count in pieces:
                port.outbound.publish_frames(frames, count, deadline.remaining())
            port.outbound.send_now()
            while True:
                answer = reply.mailbox.get(deadline.remaining())
                if answer is None:
                    text = "no confirmation came in time" + whose.explain()
                    raise reply.mailbox.error or TimeoutError(text, operation="commit")
                if answer.status == 503 and not answer.data:
                    text = "no stream takes messages on this subject"
                    raise NoRespondersError(text, subject=subject)
                try:
                    ack = decode_puback(answer.data)
                except APIError:
                    if whose.refusal_counts(subject, answer.data, deadline):
                        raise
                else:
                    if whose.confirmation_counts(ack.domain):
                        return ack


class _Message:
    """One message of a batch."""

    count = 1

    def __init__(self, subject: str, data: bytes, headers: dict[str, Any]) -> None:
        self.last_subject = subject
        self._data = data
        self._headers = headers

    def encode(
        self, batch: str, number: int, commit_reply: str | None, limits: tuple[int, int]
    ) -> list[tuple[bytes, int]]:
        """Return its frame. Raises ConfigError, MaxPayloadError."""
        headers = {**self._headers, **_batch_headers(batch, number, commit_reply is not None)}
        block = encode_headers(headers)
        frame = encode_message(self.last_subject, self._data, commit_reply, block, *limits)
        return [(frame, 1)]


class _Rows:
    """Rows of an Arrow record batch as messages of a batch."""

    def __init__(
        self,
        rows: ArrowRows,
        subject: str | None,
        data: str,
        headers: str | None,
        msg_id: str | None,
        fixed: dict[str, str],
    ) -> None:
        names = rows.names
        for name in (data, headers, msg_id):
            if name is not None and name not in names:
                raise ConfigError(f"the batch has no column {name!r}; it has {', '.join(names)}")
        self.count = rows.length
        self._rows = rows
        self._subject = subject or ""
        self._column = subject_column(names, subject)
        self._columns = (data, headers, msg_id)
        self._fixed = fixed

    @property
    def last_subject(self) -> str:
        """The subject whose answer commits the batch: that of the last row."""
        if self._column is None:
            return self._subject
        return self._rows.text(self._column, self.count - 1)

    def encode(
        self, batch: str, number: int, commit_reply: str | None, limits: tuple[int, int]
    ) -> list[tuple[bytes, int]]:
        """Return the frames of all rows in pieces. Raises ConfigError, MaxPayloadError."""
        begin = encode_headers({**self._fixed, "Nats-Batch-Id": batch})[:-2]
        return encode_batch_rows(
            self._rows,
            self._column,
            None if self._column else self._subject.encode(),
            *self._columns,
            begin + b"Nats-Batch-Sequence: ",
            number,
            None if commit_reply is None else commit_reply.encode(),
            *limits,
        )


def ended_by(batch: PublishBatch) -> str | None:
    """How a batch has ended: "committed" (whatever came of it), "discarded", or None: not yet."""
    return batch._over


def _batch_headers(batch: str, number: int, is_last: bool) -> dict[str, str]:
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
    if is_last:
        headers["Nats-Batch-Commit"] = "1"
    return headers


def _failure(text: str, reason: Error, verdict: Verdict, *, at_once: bool = True) -> Error:
    """The error for a batch that no stream has confirmed."""
    if not verdict.maybe_stored and at_once:
        text = f"nothing of the batch is stored: {text}"
    return failure(
        text,
        reason,
        maybe_stored=verdict.maybe_stored and at_once,
        operation="commit",
        msg_id=None,
    )
