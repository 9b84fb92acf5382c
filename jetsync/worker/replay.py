"""replay: publish dead letters to their original subjects again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync.jetstream.settle.dead_letter import copied_headers

if TYPE_CHECKING:
    from jetsync import JetStream

__all__ = ["replay"]


def replay(js: JetStream, stream: str, *, subject: str | None = None) -> int:
    """Publish each dead letter of a stream to its ``Dead-Letter-Subject``, then delete it there.

    ``subject`` (wildcards allowed) chooses among them. Blocks; returns how many were replayed. A
    message without that header stays. The last one is the one that was there at the beginning. Safe
    to repeat: a copy whose deletion failed has a message id, so within the duplicate window it is
    stored once. Raises StreamNotFoundError and what ``publish`` raises.
    """
    letters = js.stream(stream)
    info = letters.info()
    last, seq, count = info.state.last_seq, info.state.first_seq, 0
    consumer = js.ordered_consumer(
        stream,
        filter_subjects=[subject] if subject else None,
        opt_start_seq=max(1, seq),
        deliver_policy="by_start_sequence",
    )
    while True:
        batch = consumer.fetch_no_wait(100)
        if not len(batch):
            return count
        for msg in batch:
            about = msg.metadata
            if about.stream_seq > last:
                return count
            to = msg.headers.get("Dead-Letter-Subject") if msg.headers else None
            if to is None:
                continue
            js.publish(
                to,
                msg.data,
                headers=copied_headers(msg),
                msg_id=f"replay:{about.stream}:{about.stream_seq}:{about.timestamp_ns}",
            )
            letters.delete_msg(about.stream_seq)
            count += 1
