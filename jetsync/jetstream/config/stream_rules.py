"""Rules between the fields of a configuration that a server would certainly refuse to see broken.

Each was tried on nats-server 2.15. The server checks what only it can know: limits of the account,
other streams, the size of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from jetsync.errors import ConfigError
from jetsync.protocol.subjects import subject_matches

__all__ = ["check_combinations", "check_open", "check_overlap", "subjects_overlap"]

_RESERVED = ("$JS.>", "$JSC.>", "$NRG.>", "$SYS.>")
_OPEN = ("$JS.EVENT.>", "$SYS.ACCOUNT.>")
"""Parts of the reserved subjects that a stream may store."""

# (a field, what it excludes, why)
_EXCLUDED = [
    ("mirror", "subjects", "a mirror is a plain copy"),
    ("mirror", "sources", "a mirror is a plain copy"),
    ("mirror", "first_seq", "a mirror is a plain copy"),
    ("mirror", "subject_delete_marker_ttl", "its origin leaves the markers"),
    ("mirror", "allow_msg_counter", "its origin counts"),
    ("mirror", "allow_atomic", "a mirror takes no publishes"),
    ("mirror", "allow_batched", "a mirror takes no publishes"),
    ("mirror", "allow_msg_schedules", "a mirror takes no publishes"),
    ("sources", "allow_msg_schedules", "schedules would run in both streams"),
    ("allow_msg_counter", "allow_msg_ttl", "a counter does not age"),
    ("allow_msg_counter", "allow_msg_schedules", "a schedule is no increment"),
    ("deny_purge", "allow_rollup_hdrs", "a rollup purges"),
]

# (a field, its value, the field that it needs, the value of that field, why)
_NEEDED: list[tuple[str, Any, str, Any, str]] = [
    ("discard_new_per_subject", True, "discard", "new", "it is about refusing"),
    ("persist_mode", "async", "storage", "file", "memory is never written"),
    ("allow_msg_counter", True, "retention", "limits", "an increment cannot be taken away"),
    ("allow_msg_counter", True, "discard", "old", "an increment cannot be refused"),
    ("allow_msg_schedules", True, "discard", "old", "a message that is due cannot be refused"),
]


def check_combinations(config: object) -> None:
    """Raise ConfigError, naming the field, for fields of a StreamConfig that do not go together.

    Does not block.
    """
    for name, other, why in _EXCLUDED:
        if getattr(config, name) and getattr(config, other):
            raise ConfigError(f"StreamConfig.{name} excludes {other}: {why}")
    for name, value, other, needed, why in _NEEDED:
        if getattr(config, name) == value and getattr(config, other) != needed:
            shown = name if value is True else f"{name} {value!r}"
            raise ConfigError(f"StreamConfig.{shown} needs {other}={needed!r}: {why}")


def check_open(where: str, subjects: Sequence[str]) -> None:
    """Raise ConfigError for subjects of which only a stream without acknowledgements may have
    messages. Does not block."""
    for subject in subjects:
        if subject == ">":
            raise ConfigError(f"{where} '>' needs no_ack=True: it takes replies too")
        if any(subjects_overlap(subject, taken) for taken in _RESERVED) and not any(
            subject_matches(allowed, subject) for allowed in _OPEN
        ):
            raise ConfigError(
                f"{where} {subject!r} needs no_ack=True: it takes what servers and clients say to "
                "each other"
            )


def check_overlap(where: str, subjects: Sequence[str]) -> None:
    """Raise ConfigError if a message could match two of the subjects. Does not block."""
    twice = [subject for subject, times in Counter(subjects).items() if times > 1]
    if twice:
        raise ConfigError(f"{where} has {twice[0]!r} more than once")
    # Only a subject with wildcards can overlap with another one.
    for wild in _with_wildcards(subjects):
        for other in subjects:
            if other != wild and subjects_overlap(wild, other):
                raise ConfigError(f"{where}: {wild!r} and {other!r} overlap")


def _with_wildcards(subjects: Iterable[str]) -> list[str]:
    return [one for one in subjects if not {"*", ">"}.isdisjoint(one.split("."))]


def subjects_overlap(one: str, other: str) -> bool:
    """Return whether some subject matches both patterns. Never raises for text."""
    left, right = one.split("."), other.split(".")
    for mine, its in zip(left, right, strict=False):
        if ">" in (mine, its):
            return True
        if mine != its and "*" not in (mine, its):
            return False
    return len(left) == len(right)
