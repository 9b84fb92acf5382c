"""Secrets as files, as text, or in the environment of the process that connects.

A value that does not fit into one line may be given as ``base64:...``: credentials and PEM files
in the variables of a container or of a managed cluster.
"""

from __future__ import annotations

import base64
import binascii
import os
import tempfile
import weakref
from collections.abc import Callable

from jetsync.spark.errors import SparkOptionError

__all__ = ["plain", "read_file", "secret_file", "secret_source"]

BASE64 = "base64:"


def plain(value: str, option: str) -> str:
    """Return a secret as it is meant: what follows ``base64:`` is decoded."""
    if not value.startswith(BASE64):
        return value
    try:
        return base64.b64decode("".join(value[len(BASE64) :].split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise SparkOptionError(
            f"option '{option}': what follows {BASE64} is not base64 of a text",
            code="JETSYNC_INVALID_OPTION",
        ) from None


def secret_source(text: str | None, variable: str | None, option: str) -> Callable[[], str] | None:
    """Return what gives a secret whenever a connection is made; None if there is none.

    ``option`` names the option with the variable. Raises ``SparkOptionError`` at once if there is
    no such variable here.
    """
    if variable is not None:
        _variable(variable, option)
        return lambda: _variable(variable, option)
    if text is None:
        return None
    value = plain(text, option)
    return lambda: value


def _variable(name: str, option: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise SparkOptionError(
            f"option '{option}': there is no environment variable {name} in this process (it "
            "must be set on the driver and on every executor)",
            code="JETSYNC_MISSING_OPTION",
        )
    return plain(value, option)


def read_file(path: str) -> str:
    """Return the text of a file without surrounding blanks, as it is now."""
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def secret_file(variable: str | None, option: str) -> str | None:
    """Return the path of a file with the text of a variable, for libraries that take files only.

    The file is in the memory of this process where the system has that, else one that only this
    user can read; it is there as long as the path is. None without a variable; raises
    ``SparkOptionError`` if it is not there.
    """
    if variable is None:
        return None
    content = _variable(variable, option).encode()
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("jetsync", 0)
        with open(number, "wb", closefd=False) as file:
            file.write(content)
        made = _SecretPath(f"/proc/self/fd/{number}")
        weakref.finalize(made, os.close, number)
        return made
    number, path = tempfile.mkstemp(prefix="jetsync-")
    with os.fdopen(number, "wb") as file:
        file.write(content)
    made = _SecretPath(path)
    weakref.finalize(made, os.unlink, path)
    return made


class _SecretPath(str):
    """A path whose file goes when the path does."""
