"""A text that the user changes in an editor."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from jetsync.cli.failure import CommandError, UsageError

__all__ = ["edited"]


def edited(text: bytes, name: str) -> bytes:
    """Let the user change a text in ``$VISUAL`` or ``$EDITOR``, as a file of this name, which only
    this user may read. Blocks until the editor ends; returns the new text. Raises UsageError where
    there is no editor that can be started, CommandError where it fails."""
    import subprocess
    import tempfile

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise UsageError("nothing to change: give flags, such as --server, or set $EDITOR.")
    # In a folder of its own, as editors put copies beside a file.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(text)
        try:
            ended = subprocess.run([*shlex.split(command), str(file)], check=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"the editor {command!r} cannot be started: {error}.") from None
        if ended.returncode:
            raise CommandError(f"nothing was changed: {command!r} ended with {ended.returncode}.")
        try:
            return file.read_bytes()
        except OSError as error:
            raise CommandError(f"nothing was changed: {error.strerror}.") from None
