"""Unique names: NUIDs and inboxes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from jetsync._counted import counted
from jetsync.errors import ConfigError
from jetsync.protocol.subjects import check_publish_subject

__all__ = ["Nuid", "check_inbox_prefix", "new_inbox", "next_nuid"]

_LENGTH = 22
_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# 248 bytes are four times 62 digits. The others are left out, so that no digit is more likely.
_DIGIT_OF = (_DIGITS * 5)[:256]
_LEFT_OUT = bytes(range(248, 256))
_BUFFERED = 64  # ids made at once: one question to the system for each would cost more
_INBOX_PREFIX_MAX = 1024  # leaves a control line of 4096 bytes room for the subject it replies to


class Nuid(threading.local):
    """Makes ids of 22 random base62 characters: 131 bits from the system's random generator.

    An id does not depend on earlier ones: a party that has seen some (an inbox, a message id) can
    guess no other. Every thread has random bytes of its own, which needs no lock; a forked child
    discards those that it shares with its parent.
    """

    def __init__(self) -> None:
        self._refill()

    def _refill(self) -> None:
        self._pid = os.getpid()
        digits = ""
        while len(digits) < _LENGTH * _BUFFERED:
            digits += os.urandom(_LENGTH * _BUFFERED).translate(_DIGIT_OF, _LEFT_OUT).decode()
        self._ids = iter([digits[i * _LENGTH : (i + 1) * _LENGTH] for i in range(_BUFFERED)])

    def next(self) -> str:
        """Return a new id. Does not block; callable from any thread, signal handler or child."""
        while True:
            # Taking from an iterator is one step: a signal handler in between takes another one.
            found = next(self._ids, None) if os.getpid() == self._pid else None
            if found is not None:
                return found
            self._refill()


next_nuid: Callable[[], str] = Nuid().next
"""Return a new NUID: 22 random base62 characters, 131 bits. It is unique across machines and cannot
be guessed."""


def new_inbox(prefix: str = "_INBOX") -> str:
    """Return a new subject for replies, which cannot be guessed. Every inbox is made here, so
    ``prefix`` reaches all."""
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
        raise ConfigError(
            f"inbox_prefix has {counted(size, 'byte')}; {_INBOX_PREFIX_MAX} are allowed"
        )
    return prefix
