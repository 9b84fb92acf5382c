"""``jetsync context``: the connection settings that the ``nats`` command keeps, too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jetsync.cli.confirm import FORCE, confirm
from jetsync.cli.editor import edited
from jetsync.cli.failure import CommandError, NotFoundError, UsageError
from jetsync.cli.flags import argument
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Fields, Table
from jetsync.cli.registry import Command
from jetsync.errors import ConfigError, Error
from jetsync.protocol.contexts import Context, ContextFolder, parse_context
from jetsync.protocol.proxy import ProxyURL
from jetsync.protocol.references import scheme_of
from jetsync.protocol.url import parse_servers

__all__ = ["COMMANDS"]

_NAME = argument("NAME", completes="context", help="name of the context")
_OPTIONAL = argument("NAME", nargs="?", completes="context", help="default: the selected one")
_SECRET = ("password", "token", "user_jwt", "user_seed", "nkey", "creds")
_MASK = "***"
# The connection flags, and the fields of a context that keep them.
_FIELDS = {
    "server": "url",
    "user": "user",
    "password": "password",
    "token": "token",
    "creds": "creds",
    "nkey": "nkey",
    "jwt": "user_jwt",
    "seed": "user_seed",
    "tlscert": "cert",
    "tlskey": "key",
    "tlsca": "ca",
    "js_domain": "jetstream_domain",
    "js_api_prefix": "jetstream_api_prefix",
    "inbox_prefix": "inbox_prefix",
    "socks_proxy": "socks_proxy",
    "tlsfirst": "tls_first",
    "description": "description",
    "nsc": "nsc",
}


def _chosen(invocation: Invocation) -> str:
    name = invocation.args.name or ContextFolder().selected
    if not name:
        raise ConfigError("no context is selected: give the name of one.")
    return str(name)


def _load(name: str) -> Context:
    """Return the context that a command is about. Raises NotFoundError where there is none."""
    folder = ContextFolder()
    if not folder.has(name):
        raise NotFoundError(
            f"there is no context {name!r}; 'jetsync context ls' shows those that there are"
        )
    return folder.load(name)


def _with_flags(invocation: Invocation, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a context, with those that flags give in their place. A user without a
    password is a token, as where a flag connects."""
    args = vars(invocation.args)
    given = {field: args[flag] for flag, field in _FIELDS.items() if args.get(flag) is not None}
    fields = {**before, **given}
    if "user" in given and not fields.get("password"):
        fields["token"] = fields.pop("user")
    return fields


def _ls(invocation: Invocation) -> None:
    folder = ContextFolder()
    if invocation.args.names:
        invocation.out.names(folder.names(), "no contexts")
        return
    selected = folder.selected
    rows, data = [], []
    for name in folder.names():
        try:
            context = folder.load(name)
            description, url = context.text("description"), _masked_url(context.text("url"))
        except ConfigError as error:
            description, url = str(error), ""
        rows.append(("*" if name == selected else "", name, url, description))
        data.append(
            {
                "name": name,
                "selected": name == selected,
                "url": url,
                "description": description,
            }
        )
    invocation.out.show(data, Table(("", "NAME", "SERVERS", "DESCRIPTION"), rows, "no contexts"))


def _add(invocation: Invocation) -> None:
    """Create a context or, as the ``nats`` command does, change the given fields of one that there
    is. A new one begins with the fields of ``--context``."""
    folder, name = ContextFolder(), invocation.args.name
    copied = name if folder.has(name) else getattr(invocation.args, "context", None)
    _save(invocation, name, _load(copied).fields if copied else {})


def _save(invocation: Invocation, name: str, before: Mapping[str, Any]) -> None:
    folder = ContextFolder()
    folder.save(Context(name, _with_flags(invocation, before)))
    if invocation.args.select:
        folder.select(name)
    _show(invocation, folder.load(name))


def _edit(invocation: Invocation) -> None:
    """Change what flags give or, without any, what the user changes in an editor."""
    name = invocation.args.name
    if any(vars(invocation.args).get(flag) is not None for flag in _FIELDS):
        _save(invocation, name, _load(name).fields)
        return
    if not ContextFolder().has(name):
        _load(name)  # raises
    before = ContextFolder().raw(name)
    if (after := edited(before, f"{name}.json")) == before:
        raise CommandError(f"context {name} stays as it was: nothing was changed.")
    try:
        context = parse_context(name, after)
        if url := context.text("url"):
            parse_servers(url)
    except ConfigError as error:
        raise UsageError(f"context {name} stays as it was: {error}.") from None
    _save(invocation, name, context.fields)


def _rm(invocation: Invocation) -> None:
    folder, name = ContextFolder(), invocation.args.name
    _load(name)
    confirm(invocation, f"Delete context {name}?")
    folder.delete(name)
    invocation.out.show({"deleted": name}, f"deleted context {name}")


def _select(invocation: Invocation) -> None:
    name = _load(invocation.args.name).name
    ContextFolder().select(name)
    invocation.out.show({"selected": name}, f"selected context {name}")


def _unselect(invocation: Invocation) -> None:
    ContextFolder().select(None)
    invocation.out.show({"selected": None}, "no context is selected")


def _previous(invocation: Invocation) -> None:
    folder = ContextFolder()
    name = folder.previous
    if name is None:
        raise CommandError("no context was selected before.")
    folder.select(name)
    invocation.out.show({"selected": name}, f"selected context {name}")


def _info(invocation: Invocation) -> None:
    _show(invocation, _load(_chosen(invocation)))


def _copy(invocation: Invocation) -> None:
    args, folder = invocation.args, ContextFolder()
    if args.destination in folder.names():
        raise CommandError(f"there is a context {args.destination!r} already.")
    _save(invocation, args.destination, _load(args.name).fields)


def _validate(invocation: Invocation) -> int:
    """Check every context, or one; with --connect by connecting."""
    args, folder = invocation.args, ContextFolder()
    rows, data, wrong = [], [], 0
    for name in [args.name] if args.name else folder.names():
        problem = _problem(name, args.connect)
        wrong += problem is not None
        rows.append((name, problem or "ok"))
        data.append({"name": name, "ok": problem is None, "problem": problem})
    invocation.out.show(data, Table(("NAME", "RESULT"), rows, "no contexts"))
    return 1 if wrong else 0


def _problem(name: str, connects: bool) -> str | None:
    from jetsync.client import connect
    from jetsync.client.options import ConnectOptions

    try:
        options: ConnectOptions = ConnectOptions.from_context(name, run_commands=True)
        if connects:
            connect(options=options).close()
    except (Error, OSError) as error:
        return str(error)
    return None


def _show(invocation: Invocation, context: Context) -> None:
    fields = {key: value for key, value in context.fields.items() if value not in ("", None, False)}
    shown: dict[str, object] = {}
    for key, value in sorted(fields.items()):
        shown[key] = _without_secret(key, value)
    selected = context.name == ContextFolder().selected
    title = f"Context {context.name}{' (selected)' if selected else ''}"
    invocation.out.show(
        {"name": context.name, "selected": selected, **shown},
        Fields(title, {"": shown or {"": "no settings"}}),
    )


def _without_secret(key: str, value: object) -> object:
    """Return a field for display, with its secrets replaced by a mask."""
    text = str(value)
    if _is_content(text) or (key in _SECRET and not _is_path(key, text)):
        return _MASK
    if key == "url":
        return _masked_url(text)
    return _masked_proxy(text) if key == "socks_proxy" else value


def _is_content(text: str) -> bool:
    """Whether a field holds a key or a certificate itself and not its path."""
    return scheme_of(text.strip()) == "data" or "-----BEGIN" in text


def _is_path(key: str, value: str) -> bool:
    return key in ("creds", "nkey") and (os.sep in value or os.path.exists(value))


def _masked_url(text: str) -> str:
    try:
        return ",".join(map(str, parse_servers(text))) if "@" in text else text
    except ConfigError:
        return _behind_sign_in(text)


def _masked_proxy(text: str) -> str:
    try:
        return str(ProxyURL.parse(text)) if "@" in text else text
    except ConfigError:
        return _behind_sign_in(text)


def _behind_sign_in(text: str) -> str:
    return f"{_MASK}@{text.rpartition('@')[2]}"


_SAVED = (
    argument("--description", metavar="TEXT", help="what it is for"),
    argument("--nsc", metavar="URL", help="user that the program nsc signs in"),
    argument("--select", action="store_true", help="select it"),
)

COMMANDS = (
    Command(
        "ls",
        "list contexts",
        _ls,
        (argument("-n", "--names", action="store_true", help="names only"),),
        example="jetsync context ls",
        aliases=("list",),
        connects=False,
        other=("l",),
    ),
    Command(
        "add",
        "create a context out of the connection flags, or change one",
        _add,
        (argument("NAME", help="its name"), *_SAVED),
        example="jetsync context add prod --server tls://nats.example.com --creds ./me.creds",
        aliases=("create", "save"),
    ),
    Command(
        "edit",
        "change a context, by the connection flags or in $EDITOR",
        _edit,
        (_NAME, *_SAVED),
        example="jetsync context edit prod --server tls://nats2.example.com",
        other=("vi",),
    ),
    Command(
        "rm",
        "delete a context",
        _rm,
        (_NAME, FORCE),
        example="jetsync context rm prod --force",
        aliases=("delete",),
        connects=False,
        other=("remove",),
    ),
    Command(
        "select",
        "use a context where none is named",
        _select,
        (_NAME,),
        example="jetsync context select prod",
        aliases=("switch",),
        connects=False,
        other=("set",),
    ),
    Command(
        "unselect",
        "use no context where none is named",
        _unselect,
        example="jetsync context unselect",
        connects=False,
    ),
    Command(
        "previous",
        "select the context that was selected before",
        _previous,
        example="jetsync context previous",
        connects=False,
        other=("-",),
    ),
    Command(
        "info",
        "show a context, without its secrets",
        _info,
        (_OPTIONAL,),
        example="jetsync context info prod",
        aliases=("show",),
        connects=False,
        other=("view", "v"),
    ),
    Command(
        "copy",
        "copy a context",
        _copy,
        (_NAME, argument("DESTINATION", help="name of the new context"), *_SAVED),
        example="jetsync context copy prod staging",
        aliases=("cp",),
    ),
    Command(
        "validate",
        "check that contexts can be used",
        _validate,
        (
            argument("NAME", nargs="?", completes="context", help="default: all of them"),
            argument("--connect", action="store_true", help="connect to their servers"),
        ),
        example="jetsync context validate --connect",
        connects=False,
    ),
)
