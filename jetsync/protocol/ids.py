"""Names that nobody else has: NUIDs and inboxes."""

from __future__ import annotations

import itertools
import os
import secrets
import threading

from jetsync.errors import ConfigError
from jetsync.protocol.subjects import check_publish_subject

__all__ = ["Nuid", "check_inbox_prefix", "new_inbox", "next_nuid"]

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PAIRS = tuple(a + b for a in _DIGITS for b in _DIGITS)
_PREFIX_CHARS = 12
_SEQ_MAX = 62**10
_INBOX_PREFIX_MAX = 1024  # leaves a control line of 4096 bytes room for the subject it replies to


class Nuid(threading.local):
    """Makes ids of 22 base62 characters: a random prefix, then a number that grows.

    Thread-safe without a lock, since every thread has a prefix and a number of its own. A forked
    child takes a new prefix, known by its process id, so it repeats none of its parent's.
    """

    def __init__(self) -> None:
        self._reseed()

    def _reseed(self) -> None:
        self._pid = os.getpid()
        self._prefix = "".join(secrets.choice(_DIGITS) for _ in range(_PREFIX_CHARS))
        # Started in the lower half with a step below 334, the number needs 10^15 ids to run over.
        start, step = secrets.randbelow(_SEQ_MAX // 2), 33 + secrets.randbelow(301)
        self._numbers = itertools.count(start, step)

    def next(self) -> str:
        """Return a new id. Does not block; callable from any thread, signal handler or child."""
        if os.getpid() != self._pid:
            self._reseed()
        number = next(self._numbers)
        tail = ""
        for _ in range(5):
            number, pair = divmod(number, 3844)
            tail = _PAIRS[pair] + tail
        return self._prefix + tail


_nuid = Nuid()


def next_nuid() -> str:
    """Return a new NUID: 22 base62 characters, unique among threads, processes and machines."""
    return _nuid.next()


def new_inbox(prefix: str = "_INBOX") -> str:
    """Return a new subject for replies: every inbox is made here, so ``prefix`` reaches all."""
    return f"{prefix}.{next_nuid()}"


def check_inbox_prefix(prefix: str) -> str:
    """Return ``prefix`` if inboxes can start with it, else raise ``ConfigError``.

    It is a subject without wildcards and empty tokens, of at most 1024 bytes.
    """
    try:
        check_publish_subject(prefix)
    except ConfigError as error:
        raise ConfigError(f"inbox_prefix cannot start a subject: {error}") from None
    if "" in prefix.split("."):
        raise ConfigError("inbox_prefix has an empty token: it must not start or end with '.'")
    size = len(prefix.encode("utf-8"))
    if size > _INBOX_PREFIX_MAX:
        raise ConfigError(f"inbox_prefix has {size} bytes; {_INBOX_PREFIX_MAX} are allowed")
    return prefix
