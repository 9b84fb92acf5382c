"""Writing a key, with or without a condition: the outcome is known also after a lost answer.

Every write carries a message id. One without a condition can be sent again: the stream drops the
copy. With a condition a stream may check the condition first, so an earlier copy makes it refuse
the next one (nats-server 2.15 does, for a stream of one replica). Then the stored entry is read: if
it has the id of this write, the write has succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from jetsync._deadline import Deadline, Seconds
from jetsync.errors import (
    DisconnectedError,
    KeyExistsError,
    KeyWrongRevisionError,
    MaxPayloadError,
    MessageTooLargeError,
    NoRespondersError,
    NotStoredError,
    PublishUnknownError,
    TimeoutError,
    TTLError,
    WrongLastSequenceError,
)
from jetsync.jetstream import AUTO, StoredMsg
from jetsync.jetstream.access import api_of
from jetsync.jetstream.publish.headers import MSG_ID, Auto, PublishOptions
from jetsync.kv.backing import KeyValueBacking, gone
from jetsync.kv.entry import KeyValueOperation, operation_of

__all__ = ["Write"]

_DELAY = 0.05


class Write:
    """One write of one key, in as many attempts as it takes to know its outcome.

    For one thread; one of its three ways of storing is called once. They block and raise
    KeyExistsError or KeyWrongRevisionError for a condition that does not hold, and what
    ``JetStream.publish`` raises: NotStoredError, PublishUnknownError, ConfigError.
    """

    def __init__(
        self,
        backing: KeyValueBacking,
        key: str,
        value: bytes,
        deadline: Deadline,
        *,
        headers: Mapping[str, str] | None = None,
        rollup: Literal["sub", "all"] | None = None,
        ttl: Seconds | None = None,
    ) -> None:
        if ttl is not None:
            # An older server would take the message and keep it for ever.
            api_of(backing.origin).require("a ttl of a key", "2.11")
        self._backing = backing
        self._key = key
        self._value = value
        self._deadline = deadline
        self._headers = headers
        self._options: PublishOptions = {}  # without those that are None: checking each takes time
        if rollup is not None:
            self._options["rollup"] = rollup
        if ttl is not None:
            self._options["ttl"] = ttl
        self._msg_id: str | Auto = AUTO
        self._conflict: WrongLastSequenceError | None = None  # how the last attempt was refused
        self._unknown: PublishUnknownError | None = None  # may be stored

    # -- the three ways ----------------------------------------------------------------------------

    def store(self, expected: int | None = None) -> int:
        """Store it and return its revision; not repeated after a refusal."""
        try:
            return self._publish(self._msg_id, expected)
        except (MessageTooLargeError, MaxPayloadError):
            # The id counts towards the size of a message: a value that just fits is sent without
            # one.
            return self._publish(None, expected)
        except NotStoredError as error:
            if isinstance(error.__cause__, NoRespondersError) and self._backing.is_gone():
                raise gone(self._backing.bucket) from error
            raise

    def store_behind(self, revision: int) -> int:
        """Store it if ``revision`` is the key's last one; return the new revision."""
        while True:
            stored = self._attempt(revision)
            if stored is not None:
                return stored
            if self._unknown is None:
                raise self._wrong_revision(revision)
            found = self._read_cause(
                self._backing.first_behind, self._key, revision, self._deadline
            )
            if found is not None:
                if self._is_mine(found):
                    return found.seq
                raise self._unknown
            self._wait()

    def store_first(self) -> int:
        """Store it if the key has no value (any more); return its revision."""
        expected = 0
        while True:
            stored = self._attempt(expected)
            if stored is not None:
                return stored
            last = self._last()
            if last is not None and operation_of(last.raw_headers) is KeyValueOperation.PUT:
                if self._is_mine(last):
                    return last.seq
                raise self._unknown or self._exists(last.seq)
            behind = 0 if last is None else last.seq
            if behind == expected:
                self._wait()  # another client's write is under way, or the entry has just expired
            expected = behind

    # -- attempts ----------------------------------------------------------------------------------

    def _publish(self, msg_id: str | Auto | None, expected: int | None) -> int:
        if expected is not None:
            self._options["expected_last_subject_seq"] = expected
        try:
            ack = self._backing.origin.publish(
                self._backing.write_prefix + self._key,
                self._value,
                headers=self._headers,
                timeout=self._deadline.remaining(),
                msg_id=msg_id,
                **self._options,
            )
        except TTLError as error:
            raise TTLError(
                f"bucket {self._backing.bucket!r} keeps no key for a time of its own: turn that on "
                f"with update_key_value(bucket=..., limit_marker_ttl=...) ({error.description})",
                code=error.code,
                err_code=error.err_code,
                description=error.description,
            ) from error
        except PublishUnknownError as error:
            raise PublishUnknownError(
                f"it is not known whether key {self._key!r} of bucket {self._backing.bucket!r} was "
                f"written ({error.__cause__}); get it with direct=False and decide",
                operation="key-value write",
                msg_id=error.msg_id,
            ) from error.__cause__
        return ack.seq

    def _attempt(self, expected: int) -> int | None:
        """Store it and return its revision; None if the key is at another revision."""
        try:
            return self.store(expected)
        except WrongLastSequenceError as error:
            self._conflict = error
        except PublishUnknownError as error:
            if error.msg_id is None or not isinstance(error.__cause__, WrongLastSequenceError):
                raise
            self._unknown, self._msg_id = error, error.msg_id
        return None

    def _is_mine(self, msg: StoredMsg) -> bool:
        """Whether a stored message is an earlier attempt of this write."""
        return self._unknown is not None and msg.headers.get(MSG_ID) == self._msg_id

    def _last(self) -> StoredMsg | None:
        return self._read_cause(self._backing.last, self._key, self._deadline)

    def _read_cause(
        self, read: Callable[..., StoredMsg | None], *arguments: object
    ) -> StoredMsg | None:
        """Read the entry that caused the refusal. Without an answer in time the known error is
        raised."""
        try:
            return read(*arguments)
        except (TimeoutError, DisconnectedError) as error:
            if self._unknown is not None:
                raise self._unknown from error
            raise NotStoredError(
                f"key {self._key!r} of bucket {self._backing.bucket!r} was not written: it is at "
                f"another revision, and which one could not be read in time ({error})"
            ) from error

    def _wait(self) -> None:
        """Pause before another attempt; raises what is known when the time is over."""
        known = self._unknown or self._conflict
        if self._deadline.expired and known is not None:
            raise known
        self._backing.api.port.sleep(self._deadline.within(_DELAY))

    # -- refusals ----------------------------------------------------------------------------------

    def _wrong_revision(self, expected: int) -> KeyWrongRevisionError:
        backing, conflict = self._backing, self._conflict
        actual = None if conflict is None else conflict.actual_seq
        error = KeyWrongRevisionError(
            f"key {self._key!r} of bucket {backing.bucket!r} is not at revision {expected}"
            + (
                ", or another write of it is under way"
                if actual is None
                else f" but at {actual}: another client wrote it"
            )
            + "; read it again and decide anew",
            bucket=backing.bucket,
            key=self._key,
            expected=expected,
            actual=actual,
        )
        error.__cause__ = conflict
        return error

    def _exists(self, revision: int) -> KeyExistsError:
        backing = self._backing
        error = KeyExistsError(
            f"key {self._key!r} of bucket {backing.bucket!r} has a value already (revision "
            f"{revision}); use update with that revision, or put",
            bucket=backing.bucket,
            key=self._key,
            revision=revision,
        )
        error.__cause__ = self._conflict
        return error
