"""How a command ends when it cannot do its work: one sentence and an exit code."""

from __future__ import annotations

from jetsync.errors import ConfigError, Error

__all__ = ["CommandError", "NotFoundError", "UsageError"]


class CommandError(Error):
    """A command cannot go on. The text is one sentence for the person at the terminal (exit 1)."""


class UsageError(CommandError, ConfigError):
    """An argument of the command is wrong; nothing was started (exit 2)."""


class NotFoundError(CommandError):
    """The stream, consumer, bucket or other object of the command does not exist (exit 3)."""
