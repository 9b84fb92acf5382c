"""Options from contexts and environment variables: one translation for all entry points."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from jetsync.client.tls_config import TLSConfig
from jetsync.errors import ConfigError
from jetsync.protocol.contexts import Context, ContextFolder, read_context
from jetsync.protocol.references import Content, Reference, Seed, Text, nsc_profile, scheme_of

if TYPE_CHECKING:
    from jetsync.client.options import ConnectFields

__all__ = ["fields_of_context", "fields_of_environment", "find_context", "overridden"]

SIGN_IN = ("user", "password", "token", "credentials", "nkey_seed", "jwt", "nkey", "sign")
"""The options that sign in. A source that sets one of them replaces all: a login uses one way."""

_VARIABLES = {
    "NATS_URL": "url",
    "NATS_CERT": "cert",
    "NATS_KEY": "key",
    "NATS_CA": "ca",
    "NATS_SOCKS_PROXY": "socks_proxy",
}
_SIGN_IN_VARIABLES = {
    "NATS_USER": "user",
    "NATS_PASSWORD": "password",
    "NATS_TOKEN": "token",
    "NATS_CREDS": "creds",
    "NATS_NKEY": "nkey",
    "NATS_JWT": "user_jwt",
    "NATS_SEED": "user_seed",
}
_GO_DURATION = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def find_context(name: str | os.PathLike[str] | None) -> Context:
    """Read a context by its name or, with a slash or ``.json`` in it, by its path; None or "": the
    one that is selected. Raises ConfigError when there is none."""
    if isinstance(name, os.PathLike):
        return read_context(os.fspath(name))
    if name is not None and not isinstance(name, str):
        raise ConfigError(f"a context is a name or a path, not {type(name).__name__}")
    if name and ("/" in name or os.sep in name or name.endswith(".json")):
        return read_context(os.path.expanduser(name))
    folder = ContextFolder()
    chosen = name or folder.selected
    if not chosen:
        raise ConfigError(
            f"no context is selected in {folder.root}: give the name of one, or select one with "
            "'nats context select'"
        )
    return folder.load(chosen)


def fields_of_context(context: Context, *, run_commands: bool = False) -> ConnectFields:
    """Return the options that a context stands for. Raises ConfigError for what has no meaning
    here, and where it needs a program that ``run_commands`` does not allow."""
    context.check()
    found: dict[str, Any] = {}
    urls = context.text("url")
    if context.text("nsc"):
        profile = _nsc(context, run_commands)
        context = Context(context.name, {**context.fields, "creds": profile.get("user_creds", "")})
        urls = urls or ",".join(profile.get("operator", {}).get("service", []))
    if urls:
        found["servers"] = urls
    found.update(_sign_in(context, run_commands))
    found.update(_security(context))
    for field, option in (
        ("inbox_prefix", "inbox_prefix"),
        ("jetstream_domain", "jetstream_domain"),
        ("jetstream_api_prefix", "jetstream_api_prefix"),
        ("socks_proxy", "proxy"),
    ):
        if context.text(field):
            found[option] = context.text(field)
    return cast("ConnectFields", found)


def overridden(found: ConnectFields, overrides: Mapping[str, object]) -> ConnectFields:
    """Return the options found, with those that the caller gives in front of them."""
    fields: dict[str, object] = dict(found)
    if any(overrides.get(field) is not None for field in SIGN_IN):
        fields = {key: value for key, value in fields.items() if key not in SIGN_IN}
    return cast("ConnectFields", {**fields, **overrides})


def fields_of_environment(
    environ: Mapping[str, str], *, run_commands: bool = False
) -> ConnectFields:
    """Return the options that the variables stand for, above those of ``NATS_CONTEXT``.

    A variable that signs in replaces everything that signs in of the context. ``NATS_USER`` without
    ``NATS_PASSWORD`` is a token, as for the ``nats`` command.
    """
    name = environ.get("NATS_CONTEXT")
    fields = dict(find_context(name).fields) if name else {}
    sign_in = {
        field: environ[name] for name, field in _SIGN_IN_VARIABLES.items() if environ.get(name)
    }
    if sign_in:
        for field in (*_SIGN_IN_VARIABLES.values(), "nsc"):
            fields.pop(field, None)
        if "user" in sign_in and "password" not in sign_in:
            sign_in["token"] = sign_in.pop("user")
    fields.update(sign_in)
    fields.update({field: environ[name] for name, field in _VARIABLES.items() if environ.get(name)})
    found = fields_of_context(Context(name or "environment", fields), run_commands=run_commands)
    if environ.get("NATS_TIMEOUT"):
        found["timeout"] = _seconds("NATS_TIMEOUT", environ["NATS_TIMEOUT"])
    return found


def _sign_in(context: Context, run_commands: bool) -> dict[str, Any]:
    """The first of user, creds, nkey, user_jwt and token that is set."""

    def literal(field: str) -> str | Text:
        # A secret that a reference names is fetched at each attempt to connect.
        text = context.text(field)
        return Text(field, text, run_commands) if scheme_of(text) else text

    if context.text("user"):
        found: dict[str, Any] = {"user": context.text("user")}
        if context.text("password"):
            found["password"] = literal("password")
        return found
    if context.text("creds"):
        where = Content("creds", context.text("creds"), run_commands)
        in_file = scheme_of(where.text) in ("", "file")
        return {"credentials": where.path if in_file else where}
    if context.text("nkey"):
        return {"nkey_seed": Seed("nkey", context.text("nkey"), run_commands)}
    if context.text("user_jwt"):
        found = {"jwt": literal("user_jwt")}
        if context.text("user_seed"):
            found["nkey_seed"] = literal("user_seed")
        return found
    return {"token": literal("token")} if context.text("token") else {}


def _security(context: Context) -> dict[str, Any]:
    found: dict[str, Any] = {}
    files = {field: _file(context, field) for field in ("ca", "cert", "key")}
    if any(files.values()):
        found["tls"] = TLSConfig(
            ca_file=files["ca"], cert_file=files["cert"], key_file=files["key"]
        )
    if context.tls_first:
        found["tls_handshake_first"] = True
    return found


def _file(context: Context, field: str) -> str | None:
    text = context.text(field)
    if scheme_of(text) not in ("", "file"):
        raise ConfigError(f"{field} of context {context.name!r} must be the path of a file")
    return Reference(field, text).path if text else None


def _nsc(context: Context, run_commands: bool) -> dict[str, Any]:
    if not run_commands:
        raise ConfigError(
            f"context {context.name!r} asks the program nsc: allow it with run_commands=True"
        )
    return nsc_profile(context.text("nsc"))


def _seconds(name: str, text: str) -> float:
    """Read a duration as Go writes it ("1m30s", "250ms"), or a number of seconds."""
    try:
        return float(text)
    except ValueError:
        parts = _GO_DURATION.findall(text)
    if not parts or "".join(parts) != text:
        raise ConfigError(f"{name} must be a duration such as 5s, 250ms or 1m30s, not {text!r}")
    total = 0.0
    for part in parts:
        unit = part.lstrip("0123456789.")
        total += float(part[: -len(unit)]) * _UNITS[unit]
    return total
