"""Subjects and names: checks of their text, and matching of patterns.

These checks are for calls that are not on the hot path. Every publish is checked again by the
encoder in C (``csrc/jet_subject.c``) with the same rules.
"""

from __future__ import annotations

from jetsync._counted import counted
from jetsync.errors import ConfigError

__all__ = [
    "check_name",
    "check_publish_subject",
    "check_queue",
    "check_subscribe_subject",
    "subject_matches",
]

_NAME_FORBIDDEN = ".*>/\\"
_NAME_MAX_BYTES = 255
_SHOWN = 80


def subject_matches(pattern: str, subject: str) -> bool:
    """Return whether a subscription to ``pattern`` gets messages published to ``subject``.

    ``*`` stands for one token, ``>`` at the end for one or more. A subject with an empty token
    matches nothing, as on the server. Never raises for text; thread-safe.
    """
    wanted = pattern.split(".")
    tokens = subject.split(".")
    if "" in wanted or "" in tokens:
        return False
    tail = wanted[-1] == ">"
    if tail:
        wanted.pop()
    if len(tokens) < len(wanted) + tail or (len(tokens) != len(wanted) and not tail):
        return False
    return all(want in ("*", token) for want, token in zip(wanted, tokens, strict=False))


def check_publish_subject(subject: str) -> str:
    """Return ``subject`` if messages can be published to it, else raise ``ConfigError``.

    Refuses only text that could break framing, and wildcards; the server checks the rest.
    """
    _check_safe("subject", subject)
    for token in subject.split("."):
        if token in ("*", ">"):
            raise ConfigError(
                f"subject {_shown(subject)} has the wildcard {token!r}: publish to one subject"
            )
    return subject


def check_subscribe_subject(subject: str) -> str:
    """Return ``subject`` if it can be subscribed to, else raise ``ConfigError``."""
    _check_safe("subject", subject)
    tokens = subject.split(".")
    if "" in tokens:
        raise ConfigError(f"subject {_shown(subject)} has an empty token: look for a stray '.'")
    if ">" in tokens[:-1]:
        raise ConfigError(f"subject {_shown(subject)} has '>' before its end")
    return subject


def check_queue(queue: str) -> str:
    """Return ``queue`` if it can name a queue group, else raise ``ConfigError``."""
    return _check_safe("queue", queue)


def check_name(kind: str, name: str) -> str:
    """Return ``name`` if a stream or consumer can have it, else raise ``ConfigError``.

    ``kind`` ("stream", "consumer", ...) starts the text of the error. A server gives such names
    no answer at all, so the caller would only see a timeout.
    """
    what = f"{kind} name"
    _check_safe(what, name)
    for position, char in enumerate(name):
        if char in _NAME_FORBIDDEN:
            raise _bad_char(what, name, char, position)
    size = len(name.encode("utf-8"))
    if size > _NAME_MAX_BYTES:
        raise ConfigError(
            f"{what} {_shown(name)} has {counted(size, 'byte')}; {_NAME_MAX_BYTES} are allowed"
        )
    return name


def _check_safe(what: str, text: str) -> str:
    """Refuse what is not a non-empty text without spaces and control characters."""
    if not isinstance(text, str):
        raise ConfigError(f"{what} must be a str, not {type(text).__name__}")
    if not text:
        raise ConfigError(f"{what} is empty")
    for position, char in enumerate(text):
        if char <= " " or char == "\x7f" or "\ud800" <= char <= "\udfff":
            raise _bad_char(what, text, char, position)
    return text


def _bad_char(what: str, text: str, char: str, position: int) -> ConfigError:
    return ConfigError(f"{what} {_shown(text)} must not hold {char!r} (at position {position})")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
