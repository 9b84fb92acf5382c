"""Releasing messages that Spark has finished with: option ``onCommit``.

Spark tells the end of a batch when it plans the next one, so this lags behind by one batch, and
what was told last before a query ended may come again when it starts. So everything here may be
repeated, and covers whatever an earlier call should have done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync import errors as base_errors
from jetsync._log import Log
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.offsets import StreamOffset
from jetsync.spark.positions import head_of, open_stream
from jetsync.spark.read_options import ACK, PURGE, ReadOptions

if TYPE_CHECKING:
    from jetsync import Consumer, JetStream, Stream

__all__ = ["prepare", "release"]

log: Log = Log("jetsync.spark")


def prepare(stream: Stream, options: ReadOptions) -> None:
    """Check that a stream suits ``onCommit``, and make its anchor if there is none. Blocks.

    Raises ``JETSYNC_UNSUPPORTED_STREAM``, or ``JETSYNC_OPTION_CONFLICT`` if the anchor is in use.
    """
    config = stream.cached_info.config
    is_queue = str(config.retention) == "workqueue"
    if options.on_commit == PURGE:
        if not is_queue:
            raise _unsupported(
                f"onCommit=purge would remove messages of {stream.name!r} that others may want: it "
                "is for work queues; use onCommit=ack or none"
            )
        if config.deny_purge:
            raise _unsupported(f"stream {stream.name!r} does not allow purging (deny_purge)")
    if options.on_commit == ACK:
        if is_queue:
            raise _unsupported(
                f"stream {stream.name!r} is a work queue, from which an anchor consumer releases "
                "nothing; use onCommit=purge"
            )
        _check_anchor(_anchor(stream, options), options)


def release(js: JetStream, name: str, reached: StreamOffset, options: ReadOptions) -> None:
    """Give up what lies up to ``reached``. Blocks. Repeating it does nothing."""
    stream = open_stream(js, name)
    if head_of(stream).created != reached.created:
        # Another stream by now: reading will say so.
        return
    if options.on_commit == PURGE:
        for subject in options.filter_subjects or (None,):
            stream.purge(seq=reached.seq + 1, subject=subject)
    if options.on_commit == ACK and options.anchor_consumer is not None:
        anchor = stream.consumer(options.anchor_consumer)
        floor = anchor.cached_info.ack_floor.stream_seq
        if floor < reached.seq:
            anchor.reset(reached.seq + 1)
        elif floor > reached.seq:
            log.warning(
                "anchor %s of stream %s stands at %d, beyond %d, up to which this query is done: "
                "does another query move it, too? Give each query an anchorConsumer of its own",
                anchor.name,
                name,
                floor,
                reached.seq,
            )


def _anchor(stream: Stream, options: ReadOptions) -> Consumer:
    """Return the durable consumer that is never pulled from, and keeps what Spark has not done."""
    name = options.anchor_consumer
    assert name is not None
    try:
        return stream.consumer(name)
    except base_errors.ConsumerNotFoundError:
        pass
    log.info("stream %s: making the anchor consumer %s", stream.name, name)
    return stream.create_consumer(
        durable_name=name,
        ack_policy="all",
        deliver_policy="all",
        filter_subjects=list(options.filter_subjects) or None,
    )


def _check_anchor(anchor: Consumer, options: ReadOptions) -> None:
    config, info = anchor.cached_info.config, anchor.cached_info
    wrong = None
    if config is None or str(config.ack_policy) == "none" or config.deliver_subject is not None:
        wrong = "it is not a pull consumer with acknowledgements"
    elif set(_filters(anchor)) != set(options.filter_subjects):
        wrong = f"its filters are {_filters(anchor)}, those of the query {options.filter_subjects}"
    elif info.delivered.consumer_seq:
        # Being moved sets this back to 0, so only messages that were delivered count.
        wrong = "another client takes messages from it"
    if wrong is not None:
        raise SparkSourceError(
            f"consumer {anchor.name!r} of stream {anchor.stream_name!r} cannot be the anchor of a "
            f"query: {wrong}. Name another one in anchorConsumer; it is made when it is missing",
            code="JETSYNC_OPTION_CONFLICT",
        )


def _filters(consumer: Consumer) -> tuple[str, ...]:
    config = consumer.cached_info.config
    one = config.filter_subject if config is not None else None
    several = config.filter_subjects if config is not None else None
    return (one,) if one else tuple(several or ())


def _unsupported(text: str) -> SparkSourceError:
    return SparkSourceError(text, code="JETSYNC_UNSUPPORTED_STREAM")
