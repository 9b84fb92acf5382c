"""Contexts: the named connection settings that the ``nats`` command keeps in files.

They are JSON files in ``$XDG_CONFIG_HOME/nats/context`` (or ``~/.config/nats/context``), beside
``context.txt``, which names the selected one. Source: ADR-21 and the ``natscontext`` package of
the ``nats`` command. What is written here reads there, and the other way round.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jetsync._files import whole_file
from jetsync.errors import ConfigError

__all__ = ["Context", "ContextFolder", "parse_context", "read_context"]

_SELECTED, _PREVIOUS = "context.txt", "previous-context.txt"
_TEXTS = (
    "description",
    "url",
    "socks_proxy",
    "token",
    "user",
    "password",
    "creds",
    "nkey",
    "cert",
    "key",
    "ca",
    "nsc",
    "jetstream_domain",
    "jetstream_api_prefix",
    "jetstream_event_prefix",
    "inbox_prefix",
    "user_jwt",
    "user_seed",
    "color_scheme",
)
_WINDOWS = ("windows_cert_store", "windows_cert_match_by", "windows_cert_match")
_WINDOWS_LIST = "windows_ca_certs_match"


@dataclass(frozen=True)
class Context:
    """One context: its name and the fields of its file, as they are there.

    ``fields`` may hold more than this version knows; all of it is written back. ``repr`` shows the
    names of the fields only, because many are secrets. Immutable.
    """

    name: str
    fields: Mapping[str, Any]

    def text(self, field: str) -> str:
        """Return a field, or "" where it is not set."""
        value = self.fields.get(field)
        return value if isinstance(value, str) else ""

    @property
    def tls_first(self) -> bool:
        """Whether its servers begin with TLS."""
        return bool(self.fields.get("tls_first"))

    def check(self) -> None:
        """Raise ConfigError for fields of the wrong kind, and for those that work on Windows
        only."""
        for field in (*_TEXTS, *_WINDOWS):
            value = self.fields.get(field, "")
            if not isinstance(value, str):
                raise ConfigError(
                    f"{field} of context {self.name!r} must be a text, not {type(value).__name__}"
                )
        if not isinstance(self.fields.get("tls_first", False), bool):
            raise ConfigError(f"tls_first of context {self.name!r} must be true or false")
        used = [field for field in (*_WINDOWS, _WINDOWS_LIST) if self.fields.get(field)]
        if used:
            raise ConfigError(
                f"{used[0]} of context {self.name!r} names the certificate store of Windows, "
                "which is not supported: give cert, key and ca as files"
            )

    def __repr__(self) -> str:
        used = ", ".join(sorted(field for field, value in self.fields.items() if value))
        return f"Context({self.name!r}, fields: {used})"


class ContextFolder:
    """The folder with a user's contexts. Every call reads or writes files; nothing is kept.

    Files are replaced in one step, and only their user may read them. Safe to use from several
    threads and processes: the last writer of one file wins.
    """

    def __init__(self, root: Path | str | None = None) -> None:
        """``root`` is the folder named ``nats``; None: that of the user."""
        self.root: Path = _user_folder() if root is None else Path(root)

    def names(self) -> list[str]:
        """Return the names of all contexts, sorted."""
        found = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for path in (self.root / "context").iterdir():
                named = path.suffix == ".json" and _wrong_name(path.stem) is None
                if named and path.is_file() and path.stat().st_size:
                    found.append(path.stem)
        return sorted(found)

    def has(self, name: str) -> bool:
        """Whether there is a context of this name. Raises ConfigError for what is no name."""
        return self._path(name).exists()

    def load(self, name: str) -> Context:
        """Read one context. Raises ConfigError when there is none, or it is not readable."""
        path = self._path(name)
        if not self.has(name):
            known = ", ".join(self.names()) or "none"
            raise ConfigError(f"there is no context {name!r} in {self.root} (known: {known})")
        return read_context(path)

    def raw(self, name: str) -> bytes:
        """Return the file of a context as it is. Raises ConfigError for a wrong name, OSError."""
        return self._path(name).read_bytes()

    def save(self, context: Context) -> None:
        """Write one context. Raises ConfigError for a wrong name or wrong fields, OSError."""
        context.check()
        written: dict[str, Any] = {"name": context.name}
        written.update({field: context.fields.get(field, "") for field in _TEXTS})
        written["tls_first"] = context.tls_first
        written.update({field: "" for field in _WINDOWS})
        written[_WINDOWS_LIST] = None
        unknown = {key: value for key, value in context.fields.items() if key not in written}
        text = json.dumps({**written, **unknown}, indent=2, ensure_ascii=False)
        _replace(self._path(context.name), text)

    def delete(self, name: str) -> None:
        """Remove one context; one that is not there is no error. Raises ConfigError for the
        selected one while there are others."""
        if name == self.selected and self.names() != [name]:
            raise ConfigError(f"context {name!r} is selected: select another one first")
        self._path(name).unlink(missing_ok=True)
        if name == self.selected:
            self.select(None)

    @property
    def selected(self) -> str | None:
        """The name of the selected context, or None."""
        return self._read(_SELECTED)

    @property
    def previous(self) -> str | None:
        """The name of the context that was selected before, or None."""
        return self._read(_PREVIOUS)

    def select(self, name: str | None) -> None:
        """Select a context, or none. Raises ConfigError when there is no such one."""
        if name is not None:
            self.load(name)
        before = self.selected
        if before is not None:
            _replace(self.root / _PREVIOUS, before)
        if name is None:
            (self.root / _SELECTED).unlink(missing_ok=True)
        else:
            _replace(self.root / _SELECTED, name)

    def _path(self, name: str) -> Path:
        wrong = _wrong_name(name)
        if wrong is not None:
            raise ConfigError(f"{name!r} cannot be the name of a context: {wrong}")
        return self.root / "context" / f"{name}.json"

    def _read(self, file: str) -> str | None:
        try:
            return (self.root / file).read_text(encoding="utf-8").strip() or None
        except (FileNotFoundError, NotADirectoryError):
            return None


def read_context(path: Path | str) -> Context:
    """Read a context from a file of any name. Raises ConfigError, which holds none of it."""
    path = Path(path)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"context file {str(path)!r} cannot be read: {error.strerror}") from None
    return parse_context(path.stem, text, f"context file {str(path)!r}")


def parse_context(name: str, text: bytes, what: str = "the text") -> Context:
    """Return the context that a text holds. Raises ConfigError, which holds none of it."""
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise ConfigError(f"{what} is not JSON ({at})") from None
    except ValueError:
        raise ConfigError(f"{what} is not JSON") from None
    if not isinstance(fields, dict):
        raise ConfigError(f"{what} is not a JSON object")
    context = Context(name, {key: value for key, value in fields.items() if key != "name"})
    context.check()
    return context


def _user_folder() -> Path:
    root = os.environ.get("XDG_CONFIG_HOME")
    return (Path(root) if root else Path.home() / ".config") / "nats"


def _wrong_name(name: str) -> str | None:
    if not name:
        return "it is empty"
    if ".." in name:
        return "it holds '..'"
    if "/" in name or "\\" in name:
        return "it holds a slash"
    return None


def _replace(path: Path, text: str) -> None:
    """Write a file for its user alone; readers see the old one or the new one, nothing between."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(text.encode())
