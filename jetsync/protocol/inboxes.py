"""The prefix of inboxes."""

from __future__ import annotations

from jetsync._counted import counted
from jetsync.errors import ConfigError
from jetsync.protocol.subjects import check_publish_subject

__all__ = ["check_inbox_prefix"]

_INBOX_PREFIX_MAX = 1024  # leaves a control line of 4096 bytes room for the subject it replies to


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
