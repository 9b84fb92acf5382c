"""OrderedConsumer: every message of a stream exactly once and in order, over failures."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Seconds, to_seconds
from jetsync._handles import Handle
from jetsync._locks import lock
from jetsync._signatures import check_options, spells_out
from jetsync.client.callbacks import check_callback
from jetsync.errors import (
    ConfigError,
    ConsumerNotFoundError,
    TimeoutError,
)
from jetsync.jetstream.config.consumer_info import ConsumerInfo, ConsumerLag
from jetsync.jetstream.consumers.diagnosis import explain_stall
from jetsync.jetstream.consumers.requests import consumer_info
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.ordered.messages import OrderedMessages, release
from jetsync.jetstream.ordered.reader import OrderedReader
from jetsync.jetstream.pull.batch import BatchOptions, BatchPull, Mode
from jetsync.jetstream.pull.consume import ConsumeContext
from jetsync.jetstream.pull.options import (
    DEFAULT_EXPIRES,
    BufferLimits,
    BufferOptions,
    check_count,
    heartbeat_for,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


__all__ = ["OrderedConsumer"]


class OrderedConsumer(Handle):
    """Reads a stream from a chosen place on. Made by ``JetStream.ordered_consumer``.

    Every message comes exactly once and in the order of the stream. The server consumer underneath
    needs no attention: it lives in memory, needs no acknowledgements, and is made anew behind the
    last message handed out whenever a message is missing, a heartbeat fails, the consumer is
    deleted, its leader or the link changes. All ways of reading share one position in the stream:
    each goes on where the last one ended.

    Thread-safe: fetches take turns. While a message stream is open no other call can read. As a
    context manager it is closed at the end, which deletes the server consumer.
    """

    def __init__(self, reader: OrderedReader) -> None:
        self._reader = reader
        self._api = reader.api
        self._port = reader.port
        self.stream_name: str = reader.stream
        self._turn = lock("jetstream/ordered/consumer.py _turn")
        self._reading: weakref.ref[OrderedMessages] | None = None
        self._closed = False

    # -- taking messages ---------------------------------------------------------------------------

    def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        timeout: Seconds | None = None,
        heartbeat: Seconds | None = None,
        eager: bool = False,
    ) -> MsgBatch:
        """Fetch the next batch: at most ``max_messages`` messages or ``max_bytes`` bytes.

        Blocks until the batch is full or ``timeout`` seconds (default: the connection's) are over,
        and returns what came, maybe nothing. With ``eager`` it returns as soon as something came
        and nothing more is ready. Resets happen within the same time and are not seen. The
        server shows every ``heartbeat`` seconds that it is alive.

        Raises JetStreamError when reading cannot go on (see ``JetStream.ordered_consumer``),
        ConfigError, ConnectionClosedError, TimeoutError when another thread was reading all the
        time.
        """
        if max_messages is None and max_bytes is None:
            raise ConfigError("fetch needs max_messages or max_bytes")
        check_count("max_messages", max_messages)
        check_count("max_bytes", max_bytes)
        seconds = self._port.seconds(timeout)
        beat = heartbeat_for(seconds, heartbeat, "the timeout")
        mode = Mode.EAGER if eager else Mode.WAIT
        return self._fetch(BatchOptions(max_messages, max_bytes, seconds, beat, mode))

    def fetch_no_wait(self, max_messages: int, *, timeout: Seconds | None = None) -> MsgBatch:
        """Fetch what is there now, at most ``max_messages``; the batch may be empty.

        Blocks for a round trip, up to ``timeout`` seconds (default: the JetStream object's) while
        the server does not answer. Raises JetStreamError when reading cannot go on (see
        ``JetStream.ordered_consumer``), ConfigError, ConnectionClosedError, TimeoutError when
        another thread was reading all the time.
        """
        check_count("max_messages", max_messages)
        seconds = to_seconds(self._api.timeout if timeout is None else timeout)
        return self._fetch(BatchOptions(max_messages, None, seconds, None, Mode.NO_WAIT))

    def next(self, timeout: Seconds | None = None) -> JetStreamMsg:
        """Return the next message.

        Blocks up to ``timeout`` seconds (default: the connection's). Raises TimeoutError when none
        came, JetStreamError when reading cannot go on (see ``JetStream.ordered_consumer``),
        ConfigError, ConnectionClosedError.
        """
        # A subclass that observes both calls sees one of them: the user's.
        batch = OrderedConsumer.fetch(self, 1, timeout=timeout)
        if not len(batch):
            raise TimeoutError(
                f"no message from {self!r} within {self._port.seconds(timeout):g} s",
                operation="next",
            )
        return batch[0]

    def messages(
        self,
        *,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        expires: Seconds = DEFAULT_EXPIRES,
        heartbeat: Seconds | None = None,
        threshold_messages: int | None = None,
        threshold_bytes: int | None = None,
        on_warning: Callable[[Exception], Any] | None = None,
        stop_after: int | None = None,
    ) -> OrderedMessages:
        """Return an endless iterator over the messages, with a buffer that refills itself.

        The options (``max_messages``, ``max_bytes``, ``threshold_messages``, ``threshold_bytes``,
        ``on_warning``, ``stop_after``) are those of ``Consumer.messages``; ``heartbeat`` (default:
        half of ``expires``, at most 2 s) also says how soon a server that died in silence is
        noticed. Does not block. Raises ConfigError for options that cannot be, and while another
        message stream is open.
        """
        if not self._turn.acquire(blocking=False):
            raise ConfigError("another thread is reading from this ordered consumer")
        try:
            self._check_free()
            stream = OrderedMessages(
                self._reader,
                limits=BufferLimits.of(
                    max_messages=max_messages,
                    max_bytes=max_bytes,
                    expires=expires,
                    heartbeat=heartbeat,
                    threshold_messages=threshold_messages,
                    threshold_bytes=threshold_bytes,
                ),
                on_warning=on_warning,
                stop_after=stop_after,
            )
            self._reading = weakref.ref(stream)
            return stream
        finally:
            self._turn.release()

    @spells_out(messages)
    def consume(
        self, callback: Callable[[JetStreamMsg], Any], **options: Unpack[BufferOptions]
    ) -> ConsumeContext:
        """Give every message to ``callback``, one by one: see ``ConsumeContext`` for the thread.

        Takes the options of :meth:`messages`. An exception of the callback goes to the connection's
        ``on_error``, and the next message is delivered. Does not block. Raises ConfigError for
        options that cannot be and while another message stream is open, ConnectionClosedError.
        """
        check_options("consume", options, BufferOptions)
        check_callback(callback)
        return ConsumeContext(self._port, self.messages(**options), callback)

    # -- inside ------------------------------------------------------------------------------------

    def _check_free(self) -> None:
        self._port.check()
        if self._closed:
            raise ConfigError("this ordered consumer is closed")
        stream = self._reading() if self._reading is not None else None
        if stream is not None:
            release(stream)

    @contextlib.contextmanager
    def _turn_of(self, seconds: float) -> Iterator[OrderedReader]:
        if not self._turn.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            raise TimeoutError("another thread was reading all the time", operation="fetch")
        try:
            self._check_free()
            yield self._reader
        finally:
            self._turn.release()

    def _fetch(self, options: BatchOptions) -> MsgBatch:
        with self._turn_of(options.timeout) as reader:
            place = reader.begin_fetch()
            try:
                batch = BatchPull(reader, options).run()
            except TimeoutError:
                raise  # nothing was taken
            except BaseException:
                # Messages that were taken and not handed out are read again.
                reader.rewind(place)
                raise
            assert batch is not None
            return batch

    # -- managing it -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the current server consumer; it changes with each reset."""
        return self._reader.name

    @property
    def last_seq(self) -> int:
        """Stream sequence up to which everything was taken from the server."""
        return self._reader.last

    @property
    def resets(self) -> int:
        """How often the server consumer had to be replaced."""
        return self._reader.resets

    def info(self, *, timeout: Seconds | None = None) -> ConsumerInfo:
        """Ask the server about its current consumer. While one is being replaced it asks for the
        next one.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError when there was none in time, StreamNotFoundError or another APIError;
        ConfigError after :meth:`close`; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        deadline = self._api.deadline(timeout)
        while True:
            if self._closed:
                raise ConfigError("this ordered consumer is closed")
            try:
                return consumer_info(
                    self._api, self.stream_name, self._reader.name, deadline.remaining()
                )
            except ConsumerNotFoundError:
                if deadline.expired:
                    raise
            if self._turn.acquire(blocking=False):
                try:
                    self._check_free()
                    self._reader.drop("the server consumer is gone")
                    self._reader.renew(deadline)
                except ConfigError:
                    pass  # a message stream is open and replaces the consumer itself
                finally:
                    self._turn.release()
            self._port.sleep(deadline.within(0.05))

    @property
    def cached_info(self) -> ConsumerInfo:
        """The info of the current server consumer, from its creation. Does not block."""
        assert self._reader.info is not None
        return self._reader.info

    def lag(self, *, timeout: Seconds | None = None) -> ConsumerLag:
        """Ask how far the consumer is behind its stream.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). Raises
        ConsumerNotFoundError when there was none in time, StreamNotFoundError or another APIError;
        ConfigError after :meth:`close`; TimeoutError, DisconnectedError, PermissionsError,
        ConnectionClosedError.
        """
        return ConsumerLag.from_info(self.info(timeout=timeout))

    def explain_stall(self, *, timeout: Seconds | None = None) -> str | None:
        """Ask the server why nothing comes, and return the reason as one sentence; None when there
        is none. It knows the reasons that ``Consumer.explain_stall`` knows.

        Blocks up to ``timeout`` seconds (default: the JetStream object's). That no answer comes is
        a reason too. Raises an APIError that it does not know, PermissionsError,
        ConnectionClosedError.
        """
        seconds = to_seconds(self._api.timeout if timeout is None else timeout)
        generation = self._reader.generation
        if generation is not None:
            return explain_stall(generation.consumer, seconds)
        self._port.check()
        return (
            f"the server consumer is being replaced; last error: {self._port.connection.last_error}"
        )

    def close(self) -> None:
        """End reading and delete the server consumer. Does not wait for it. Safe to repeat."""
        self._closed = True
        stream = self._reading() if self._reading is not None else None
        if stream is not None:
            stream.stop()
        if self._turn.acquire(timeout=1.0):
            try:
                self._reader.close()
            finally:
                self._turn.release()

    def __enter__(self) -> OrderedConsumer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # The object was dropped without close(). This thread may hold any lock at this moment.
        if not getattr(self, "_closed", True) and not self._port.closed:
            self._reader.rewind(self._reader.position(), later=True)

    def __repr__(self) -> str:
        return f"OrderedConsumer({self.stream_name!r}, behind {self.last_seq})"
