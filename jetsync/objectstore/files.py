"""The file that an object is written to."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from jetsync._files import whole_file
from jetsync.errors import ConfigError

__all__ = ["Target"]


class Target:
    """A file that is to be written, checked before the work.

    Raises OSError for a directory, a missing one, and a file or directory that may not be written;
    ConfigError for what is no regular file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # The target of a symbolic link is replaced, not the link.
        self._path = Path(os.path.realpath(path))
        self._mode: int | None = None
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self._path)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(21, "an object cannot replace a directory", str(path))
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(
                    f"{os.fspath(path)!r} is no regular file: read the object with get() and write "
                    "it yourself"
                )
            if not os.access(self._path, os.W_OK):
                raise PermissionError(13, "the file may not be written", str(path))
            self._mode = stat.S_IMODE(found.st_mode)
        if not self._path.parent.is_dir():
            raise FileNotFoundError(2, "there is no such directory", str(self._path.parent))

    @contextlib.contextmanager
    def replaced(self) -> Iterator[IO[bytes]]:
        """A new file that replaces the old one, with its permissions, when the block ends without
        an exception; see ``whole_file``."""
        with whole_file(self._path, 0o666) as file:
            if self._mode is not None:
                os.fchmod(file.fileno(), self._mode)
            yield file
