"""A JetStream that remembers which streams it created, for a server that others use as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync._deadline import to_seconds
from jetsync._signatures import spells_out
from jetsync.jetstream import JetStream
from jetsync.jetstream.access import api_of
from jetsync.jetstream.config.stream import StreamConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from jetsync import Connection
    from jetsync._deadline import Seconds
    from jetsync.jetstream import Stream
    from jetsync.jetstream.config.fields import StreamFields

__all__ = ["RecordingJetStream"]


class RecordingJetStream(JetStream):
    """JetStream of a connection's options that adds to ``created`` the name of each stream which it
    created and has not deleted. Streams of buckets count; a stream that was there before a call
    does not, although the call succeeds. Thread-safe."""

    def __init__(self, nc: Connection, created: set[str]) -> None:
        options = nc.options
        super().__init__(
            nc,
            domain=options.jetstream_domain,
            api_prefix=options.jetstream_api_prefix,
            timeout=to_seconds(options.timeout),
            max_pending=None,
            auto_msg_id=True,
        )
        self._created = created

    @spells_out(StreamConfig)
    def create_stream(
        self,
        config: StreamConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[StreamFields],
    ) -> Stream:
        """See ``JetStream``."""
        return self._recorded(super().create_stream, timeout, config, pedantic=pedantic, **fields)

    @spells_out(StreamConfig)
    def create_or_update_stream(
        self,
        config: StreamConfig | None = None,
        *,
        timeout: Seconds | None = None,
        pedantic: bool = False,
        **fields: Unpack[StreamFields],
    ) -> Stream:
        """See ``JetStream``."""
        make = super().create_or_update_stream
        return self._recorded(make, timeout, config, pedantic=pedantic, **fields)

    def delete_stream(self, name: str, *, timeout: Seconds | None = None) -> None:
        """See ``JetStream``."""
        super().delete_stream(name, timeout=timeout)
        self._created.discard(name)

    def _recorded(
        self,
        make: Callable[..., Stream],
        timeout: Seconds | None,
        config: StreamConfig | None,
        **options: Any,
    ) -> Stream:
        """Make a stream, and add its name if it was not there before."""
        deadline = api_of(self).deadline(timeout)
        there = set(self.stream_names(timeout=deadline.remaining()))
        stream = make(config, timeout=deadline.remaining(), **options)
        if stream.name not in there:
            self._created.add(stream.name)
        return stream
