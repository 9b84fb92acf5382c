"""Files that appear under their name as a whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["whole_file"]

_LONGEST = 80  # bytes of the name in that of the unfinished file, which a file system limits


@contextmanager
def whole_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a new file for the block. It gets the name ``path``, in place of a file that has it,
    when the block ends and the disk has all of it. When the block raises, the new file is removed
    and the old one stays.

    ``mode`` are its permissions, but for those that the umask takes away. A process that is killed
    leaves a hidden file ``.NAME.XXXXXXXX.part`` beside ``path``. Blocks. Raises OSError.
    """
    name = os.fsdecode(os.fsencode(path.name)[:_LONGEST])
    part = path.with_name(f".{name}.{os.urandom(4).hex()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
