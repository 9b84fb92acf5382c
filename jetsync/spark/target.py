"""The stream that is written to, looked at on the driver before any task runs.

Only possible if option ``subject`` or ``publishStream`` names it; the streams that subjects in a
column lead to are looked at by the tasks (destinations.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetsync._log import Log
from jetsync.errors import APIError, JetStreamNotEnabledError, StreamNotFoundError
from jetsync.spark.connection import coded, with_patience
from jetsync.spark.errors import SparkSourceError
from jetsync.spark.key_values import no_such_stream
from jetsync.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from jetsync import JetStream, StreamConfig
    from jetsync.spark.sink_columns import SinkColumns

__all__ = ["Target", "check_stream", "find_stream", "look_at_target", "stream_config"]

log: Log = Log("jetsync.spark")


@dataclass(frozen=True)
class Target:
    """The settings of a stream that a write needs."""

    stream: str
    replicas: int


def find_stream(options: WriteOptions, subject: str) -> str:
    """Return the stream that takes a subject; raises ``JETSYNC_NO_SUBJECT`` if none does.

    Blocks. An account without JetStream has no API to ask: ``JETSYNC_API_ERROR``.
    """

    def ask(js: JetStream) -> str:
        try:
            return js.stream_name_by_subject(subject)
        except APIError as error:
            if isinstance(error, JetStreamNotEnabledError):
                raise coded(error, f"looking for the stream of {subject}") from None
            if not isinstance(error, StreamNotFoundError):
                raise
            raise SparkSourceError(
                f"no stream takes subject {subject!r}; create one first, or correct the subject",
                code="JETSYNC_NO_SUBJECT",
            ) from None

    return with_patience(options.link, f"looking for the stream of {subject}", ask)


def look_at_target(options: WriteOptions, columns: SinkColumns) -> Target | None:
    """Check that the stream can do what the write asks; None if its name is not known yet.

    Blocks. Raises ``SparkSourceError``; a duplicate window that is too short is only a warning,
    unless option ``minDuplicateWindow`` says ``error:``.
    """
    stream = options.publish_stream
    if options.subject is not None:
        found = find_stream(options, options.subject)
        if stream is not None and found != stream:
            raise SparkSourceError(
                f"subject {options.subject!r} belongs to stream {found!r}, not to {stream!r}",
                code="JETSYNC_WRONG_STREAM",
            )
        stream = found
    if stream is None:
        return None
    config = stream_config(options, stream)
    check_stream(stream, config, options, columns)
    return Target(stream, config.num_replicas)


def stream_config(options: WriteOptions, stream: str) -> StreamConfig:
    """Ask for the settings of a stream. Blocks. Raises ``JETSYNC_STREAM_NOT_FOUND``."""
    return with_patience(
        options.link, f"looking at stream {stream}", lambda js: _config(js, stream)
    )


def check_stream(
    stream: str, config: StreamConfig, options: WriteOptions, columns: SinkColumns
) -> None:
    """Check that a stream can do what a write asks. Raises ``SparkSourceError``; does not block."""
    _check_settings(stream, config, options, columns)
    _check_window(stream, config.duplicate_window or 0.0, options)


def _config(js: JetStream, stream: str) -> StreamConfig:
    try:
        return js.stream(stream).cached_info.config
    except StreamNotFoundError:
        raise no_such_stream(stream, "publishStream") from None


def _check_settings(
    stream: str, config: StreamConfig, options: WriteOptions, columns: SinkColumns
) -> None:
    names = columns.names
    for needed, set_, text in (
        (True, not config.no_ack, "confirms nothing (no_ack), so no write can know it is done"),
        (True, not config.sealed, "is sealed and takes nothing any more"),
        (options.atomic, config.allow_atomic, "needs allow_atomic for option atomic=chunk"),
        ("ttl" in names, config.allow_msg_ttl, "needs allow_msg_ttl for column ttl"),
        (
            "schedule" in names,
            config.allow_msg_schedules,
            "needs allow_msg_schedules for column schedule",
        ),
        (
            options.purge_on_overwrite,
            not config.deny_purge,
            "denies purging, which option onOverwrite=purge does",
        ),
    ):
        if needed and not set_:
            raise SparkSourceError(f"stream {stream!r} {text}", code="JETSYNC_STREAM_CONFIG")


def _check_window(stream: str, window: float, options: WriteOptions) -> None:
    if options.dedup == "none" or window >= options.min_duplicate_window:
        return
    text = (
        f"stream {stream!r} forgets message ids after {window:g} s, minDuplicateWindow is "
        f"{options.min_duplicate_window:g} s: a task that is repeated later stores its rows twice"
    )
    if options.small_window_fails:
        raise SparkSourceError(text, code="JETSYNC_DUPLICATE_WINDOW")
    log.warning("%s", text)
