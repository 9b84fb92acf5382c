"""replay: publish dead letters to their original subjects again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetsync._log import Log
from jetsync.errors import ConfigError, MessageNotFoundError
from jetsync.jetstream.settle.dead_letter import copied_headers

if TYPE_CHECKING:
    from jetsync import JetStream, StoredMsg

__all__ = ["replay"]

logger: Log = Log("jetsync.worker")


def replay(js: JetStream, stream: str, *, subject: str | None = None) -> int:
    """Publish each dead letter of a stream to its ``Dead-Letter-Subject``, then delete it there.

    ``subject`` (wildcards allowed) chooses among them. Blocks; returns how many were replayed. A
    message without that header stays, and so does one whose subject nothing can be published to.
    The last one is the one that was there at the beginning. Safe to repeat: a copy whose deletion
    failed has a message id, so within the duplicate window it is stored once. Raises
    StreamNotFoundError and what ``publish`` raises.
    """
    letters = js.stream(stream)
    last, seq, count = letters.info().state.last_seq, 1, 0
    while True:
        try:
            # Not by a consumer: a work queue lets none read that is not its worker.
            letter = letters.get_msg(seq, next_by_subject=subject or ">")
        except MessageNotFoundError:
            return count
        if letter.seq > last:
            return count
        seq = letter.seq + 1
        if _is_replayed(js, letter):
            letters.delete_msg(letter.seq)
            count += 1


def _is_replayed(js: JetStream, letter: StoredMsg) -> bool:
    """Publish a letter to where it comes from, if it says so and that can be published to."""
    to = letter.headers.get("Dead-Letter-Subject")
    if to is None:
        return False
    msg_id = f"replay:{letter.stream}:{letter.seq}:{letter.time_ns}"
    try:
        js.publish(to, letter.data, headers=copied_headers(letter), msg_id=msg_id)
    except ConfigError as error:
        logger.warning("dead letter %d of %s stays: %s", letter.seq, letter.stream, error)
        return False
    return True
