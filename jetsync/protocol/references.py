"""References: the secrets that a context names, and fetching them.

A value is the secret itself, or one of ``file://path``, ``env://NAME``, ``data:;base64,...``,
``op://...`` (the ``op`` program of 1Password) and ``nsc://operator/account/user``. Source: the
``natscontext`` package that the ``nats`` command reads its contexts with.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import os
import re
from dataclasses import dataclass
from typing import Any

from jetsync.errors import ConfigError

__all__ = ["Content", "Reference", "Seed", "Text", "nsc_profile", "scheme_of"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two letters at least: "C:\\" is a drive
_SCHEMES = ("file", "env", "data", "op", "nsc")
_PROGRAMS = ("op", "nsc")
_PROGRAM_TIME = 60.0
"""Seconds for a program that may ask its user for a password."""
_MOST = 1 << 16
_SHORTEST_SEED = 40


def scheme_of(text: str) -> str:
    """Return the scheme of a reference, or "" for anything else."""
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    return scheme if scheme in _SCHEMES else ""


def _expand(path: str) -> str:
    """Replace ``~`` and ``$VARIABLE`` in a path."""
    return os.path.expanduser(os.path.expandvars(path))


@dataclass(frozen=True)
class Reference:
    """The source of a secret of a context, read anew whenever the secret is needed. Picklable.

    Two that name the same are equal, so that options which hold them are equal too; ``repr`` hides
    what they name. ``field`` is the field of the context, for errors. Programs are started only
    with ``run_commands``; otherwise a reference that needs one is a ConfigError when it is made.
    The classes below are called by what needs the secret in their form.
    """

    field: str
    text: str = dataclasses.field(repr=False)
    run_commands: bool = False

    def __post_init__(self) -> None:
        scheme = scheme_of(self.text)
        if scheme in _PROGRAMS and not self.run_commands:
            raise ConfigError(
                f"{self.field} of the context starts a program ({scheme}://): allow it with "
                "run_commands=True"
            )
        if scheme == "data":
            _decoded(self.field, self.text)

    def read(self) -> bytes:
        """Return the bytes that it names. Blocks as long as the file or the program does (60 s at
        most). Raises ConfigError, which never holds the secret."""
        scheme = scheme_of(self.text)
        if scheme == "env":
            return self._variable().encode()
        if scheme == "data":
            return _decoded(self.field, self.text)
        if scheme == "op":
            return _run("op", "read", "op://" + _behind(self.text))
        if scheme == "nsc":
            creds = nsc_profile(self.text).get("user_creds")
            if not isinstance(creds, str) or not creds:
                raise ConfigError(f"nsc names no credentials for {self.field} of the context")
            return self._file(creds)
        return self._file(self.path)

    @property
    def path(self) -> str:
        """The file that it names, where it names one."""
        return _expand(_behind(self.text) if scheme_of(self.text) == "file" else self.text)

    def read_text(self) -> str:
        """Return the secret as text, without the line's end behind it."""
        try:
            return self.read().decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise ConfigError(f"{self.field} of the context is not text") from None

    def _variable(self) -> str:
        name = _behind(self.text)
        value = os.environ.get(name, "")
        if not value:
            raise ConfigError(
                f"{self.field} of the context names the environment variable {name!r}, which is "
                "not set"
            )
        return value

    def _file(self, path: str) -> bytes:
        try:
            with open(path, "rb") as file:
                return file.read(_MOST)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"{self.field} of the context: {path!r} cannot be read: {reason}"
            ) from None


class Content(Reference):
    """A secret as bytes: a ``.creds`` file."""

    def __call__(self) -> bytes:
        return self.read()


class Text(Reference):
    """A secret as text: a password, a token, a JWT."""

    def __call__(self) -> str:
        return self.read_text()


class Seed(Reference):
    """An nkey seed, also out of a file with lines around it."""

    def __call__(self) -> str:
        for word in self.read_text().split():
            if word.startswith("S") and len(word) > _SHORTEST_SEED:
                return word
        raise ConfigError(f"{self.field} of the context holds no nkey seed")


def nsc_profile(text: str) -> dict[str, Any]:
    """Ask ``nsc`` for a profile: ``user_creds`` (a path), ``operator`` with ``service`` (URLs)."""
    name = _behind(text) if scheme_of(text) == "nsc" else text
    try:
        answer = json.loads(_run("nsc", "generate", "profile", f"nsc://{name}"))
    except ValueError:
        raise ConfigError("nsc did not answer with JSON; is it the newest version?") from None
    return answer if isinstance(answer, dict) else {}


def _behind(text: str) -> str:
    rest = text.split(":", 1)[1]
    return rest[2:] if rest.startswith("//") else rest


def _decoded(field: str, text: str) -> bytes:
    header, comma, payload = _behind(text).partition(",")
    if not comma or "base64" not in [part.strip() for part in header.split(";")]:
        raise ConfigError(f"{field} of the context must be written as data:;base64,<content>")
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{field} of the context holds no valid base64") from None


def _run(*command: str) -> bytes:
    import subprocess

    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=_PROGRAM_TIME, stdin=None
        )
    except FileNotFoundError:
        raise ConfigError(f"the context needs the program {command[0]!r}, not found") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{command[0]} did not end within {_PROGRAM_TIME:g} s") from None
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip()[:500] or f"exit code {done.returncode}"
        raise ConfigError(f"{command[0]} failed: {why}")
    return done.stdout
