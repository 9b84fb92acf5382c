"""Credentials: the user's secrets, and the CONNECT fields made of them.

Everything is asked for again at each attempt: a rotated password, a renewed ``.creds`` file or a
fresh token takes effect with the next reconnect.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeAlias

from jetsync._log import Log
from jetsync.errors import AuthorizationError, ConfigError
from jetsync.protocol import nkeys
from jetsync.protocol.url import ServerURL

__all__ = ["Credentials", "CredsSource", "Signer", "TextSource", "parse_creds"]

TextSource: TypeAlias = str | Callable[[], str]
"""A value, or a callable without arguments that returns it."""

_Path: TypeAlias = str | os.PathLike[str]
CredsSource: TypeAlias = _Path | bytes | Callable[[], _Path | bytes]
"""The path of a ``.creds`` file, or (as bytes) its content; or a callable that returns either."""

Signer: TypeAlias = Callable[[bytes], bytes]
"""Signs with a key that stays elsewhere: gets the server's nonce, returns 64 bytes (Ed25519)."""

logger: Log = Log("jetsync.connection")

_warned: set[str] = set()
_MASK = "***"
_SIGNATURE = 64
_MOST_CREDS = 1 << 16
"""Bytes of a ``.creds`` file or content; a JWT and a seed take two or three thousand."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Credentials:
    """At most one kind of credentials; picklable if its callables are; ``repr`` hides secrets.

    The kinds: ``user`` (with ``password``), ``token``, ``credentials`` (a ``.creds`` file),
    ``nkey_seed``, ``jwt`` (with ``nkey_seed`` or ``sign``, or alone when it is a bearer token),
    ``nkey`` (the public key) with ``sign``. Raises
    ``ConfigError`` if more than one is given or a value is unusable. Safe to share between threads
    if its callables are.
    """

    user: TextSource | None = None
    password: TextSource | None = None
    token: TextSource | None = None
    credentials: CredsSource | None = None
    nkey_seed: TextSource | None = None
    jwt: TextSource | None = None
    nkey: str | None = None
    sign: Signer | None = None

    def __post_init__(self) -> None:
        given = [name for name in _NAMES if getattr(self, name) is not None]
        by_kind: dict[str, str] = {}
        for name in given:
            by_kind.setdefault(_KINDS[name], name)
        if len(by_kind) > 1:
            names = " and ".join(by_kind.values())
            raise ConfigError(f"{names} are two ways to log in; give only one of them")
        if self.password is not None and self.user is None:
            raise ConfigError("password was given without user")
        self._check_signer()
        for name in given:
            value = getattr(self, name)
            if name == "credentials":
                _check_creds_source(value)
            elif isinstance(value, str):
                _check_text(name, value)
            elif not callable(value):
                raise ConfigError(f"{name} must be a str or a callable, not {type(value).__name__}")

    def _check_signer(self) -> None:
        if self.sign is not None and not callable(self.sign):
            raise ConfigError("sign must be a callable that gets bytes and returns their signature")
        if self.sign is not None and self.nkey is None and self.jwt is None:
            raise ConfigError("sign needs the nkey (public, U...) or the jwt of its key")
        if self.nkey is not None and self.sign is None:
            raise ConfigError("nkey needs sign; for a key that is at hand give nkey_seed alone")
        if self.sign is not None and self.nkey_seed is not None:
            raise ConfigError("sign and nkey_seed are two ways to sign; give only one of them")
        if self.sign is not None and self.nkey is not None and self.jwt is not None:
            raise ConfigError("a jwt names its key; give nkey only without one")

    @property
    def kind(self) -> str | None:
        """Which way to log in: "user", "token", "credentials", "nkey", "jwt", or None."""
        if self.jwt is not None:
            return "jwt"
        return next((_KINDS[name] for name in _NAMES if getattr(self, name) is not None), None)

    def resolve(self, nonce: str | None, *, server: ServerURL | None = None) -> dict[str, str]:
        """Return the CONNECT fields for one attempt, signing ``nonce`` where that is called for.

        Callables are called and the ``.creds`` file is read, every time. The user, password or
        token in the URL of ``server`` counts when nothing else was given. A server that has no
        nkey or JWT users sends no nonce; then nothing is signed. Blocks only as long as callables
        and the file do. Raises ``ConfigError``; secrets never appear in its text.
        """
        if self.user is not None:
            entry = {"user": _ask("user", self.user)}
            if self.password is not None:
                entry["pass"] = _ask("password", self.password)
            return entry
        if self.token is not None:
            return {"auth_token": _ask("token", self.token)}
        if self.credentials is not None:
            jwt, seed = _read_creds(self.credentials)
            return {"jwt": jwt, **_signature(seed, nonce)}
        if self.jwt is not None:
            entry = {"jwt": _ask("jwt", self.jwt).strip()}
            if self.nkey_seed is not None:
                entry.update(_signature(_ask("nkey_seed", self.nkey_seed).strip(), nonce))
            if self.sign is not None:
                entry.update(_signed(self.sign, nonce))
            return entry
        if self.nkey is not None and self.sign is not None:
            return {"nkey": self.nkey, **_signed(self.sign, nonce)}
        if self.nkey_seed is not None:
            seed = _ask("nkey_seed", self.nkey_seed).strip()
            return {"nkey": nkeys.public_key(seed), **_signature(seed, nonce)}
        return {} if server is None else _from_url(server)

    def __repr__(self) -> str:
        shown = []
        for name in _NAMES:
            value = getattr(self, name)
            if value is None:
                continue
            if callable(value):
                shown.append(f"{name}=<callable>")
            elif name in ("user", "nkey") or (
                name == "credentials" and not isinstance(value, bytes)
            ):
                shown.append(f"{name}={value!r}")
            else:
                shown.append(f"{name}={_MASK!r}")
        return f"Credentials({', '.join(shown)})"


_NAMES = tuple(f.name for f in fields(Credentials))
_KINDS = {
    "user": "user",
    "password": "user",
    "token": "token",
    "credentials": "credentials",
    "nkey_seed": "nkey",
    "jwt": "nkey",  # a JWT goes with a seed, so the two do not conflict
    "nkey": "nkey",
    "sign": "nkey",
}


def parse_creds(content: bytes) -> tuple[str, str]:
    """Read the JWT and the seed out of the content of a ``.creds`` file.

    Takes any run of three or more dashes as framing. Raises ``ConfigError`` that never holds any
    of the content. Reads each line once; more than 64 KiB are refused.
    """
    if len(content) > _MOST_CREDS:
        raise ConfigError(f"the credentials are larger than {_MOST_CREDS} bytes")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError("the credentials are not text") from None
    found: dict[str, str] = {}
    label, words = "", list[str]()
    for line in text.splitlines():
        frame = line.strip()
        if not (frame.startswith("---") and frame.endswith("---")):
            words += line.split()
            continue
        title = frame.strip("-").strip().upper()
        if title.startswith("BEGIN "):
            label = title.rpartition(" ")[2]
        elif title.startswith("END ") and label in ("JWT", "SEED"):
            if len(words) == 1:
                found.setdefault(label, words[0])
            label = ""
        words = []
    for name, what in (("JWT", "user JWT"), ("SEED", "nkey seed")):
        if name not in found:
            raise ConfigError(f"the credentials hold no {what} between lines of dashes")
    return found["JWT"], found["SEED"]


def _signature(seed: str, nonce: str | None) -> dict[str, str]:
    return {"sig": nkeys.sign_nonce(seed, nonce)} if nonce else {}


def _signed(sign: Signer, nonce: str | None) -> dict[str, str]:
    if not nonce:
        return {}
    try:
        signature = sign(nonce.encode("utf-8"))
    except Exception as error:
        raise AuthorizationError(f"sign raised {type(error).__name__}: {error}") from error
    if not isinstance(signature, bytes) or len(signature) != _SIGNATURE:
        raise AuthorizationError(f"sign must return {_SIGNATURE} bytes, the raw Ed25519 signature")
    return {"sig": nkeys.signature_text(signature)}


def _from_url(server: ServerURL) -> dict[str, str]:
    if server.token is not None:
        return {"auth_token": server.token}
    if server.user is not None:
        return {"user": server.user, "pass": server.password or ""}
    return {}


def _ask(name: str, value: TextSource) -> str:
    if isinstance(value, str):
        return value
    answer = _call(name, value)
    if not isinstance(answer, str):
        raise ConfigError(f"the callable for {name} must return a str, not {type(answer).__name__}")
    return _check_text(name, answer)


def _call(name: str, function: Callable[[], object]) -> object:
    try:
        return function()
    except ConfigError:  # of a context's reference, for example: it says itself what is wrong
        raise
    except Exception as error:  # any exception concerns one option and ends one attempt
        raise ConfigError(f"the callable for {name} raised {type(error).__name__}") from error


def _check_text(name: str, value: str) -> str:
    if not value and name != "password":
        raise ConfigError(f"{name} is empty")
    return value


def _check_creds_source(source: object) -> None:
    if isinstance(source, str) and "\n" in source:
        raise ConfigError("credentials is a path; give the content of the file as bytes")
    if isinstance(source, (str, bytes)) and not source:
        raise ConfigError("credentials is empty")
    if not isinstance(source, (str, bytes, os.PathLike)) and not callable(source):
        raise ConfigError(
            "credentials must be a path, the content as bytes, or a callable that returns one, "
            f"not {type(source).__name__}"
        )


def _warn_if_open_to_others(path: str, mode: int) -> None:
    """Log it once for each file: it is read again at every attempt."""
    if mode & stat.S_IROTH and stat.S_ISREG(mode) and path not in _warned:
        _warned.add(path)
        logger.warning("every user of this machine can read the credentials in %r", path)


def _read_creds(source: CredsSource) -> tuple[str, str]:
    answer: object = source
    if callable(source):
        answer = _call("credentials", source)
        _check_creds_source(answer)
    if isinstance(answer, bytes):
        return parse_creds(answer)
    if not isinstance(answer, (str, os.PathLike)):
        raise ConfigError("the callable for credentials must return a path, or content as bytes")
    path = os.path.expanduser(os.fspath(answer))
    try:
        with open(path, "rb") as file:
            _warn_if_open_to_others(path, os.fstat(file.fileno()).st_mode)
            content = file.read(_MOST_CREDS + 1)  # a device may have no end
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"credentials file {path!r} cannot be read: {reason}") from None
    try:
        return parse_creds(content)
    except ConfigError as error:
        raise ConfigError(f"{error} (file {path!r})") from None
