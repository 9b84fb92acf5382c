"""The reference of all commands, as Markdown: ``python -m jetsync.cli.reference``."""

from __future__ import annotations

from jetsync.cli.commands import WORDS
from jetsync.cli.flags import CONNECTION, OUTPUT, Argument

__all__ = ["reference"]


def reference() -> str:
    """Return the part of docs/guide/command-line.md that is made of the declarations."""
    lines = ["## Commands", ""]
    for word in WORDS:
        lines += [f"### `jetsync {word.name}`", "", f"{word.help[0].upper()}{word.help[1:]}."]
        if word.aliases:
            lines[-1] += f" Also: {', '.join(f'`{name}`' for name in word.aliases)}."
        lines += ["", "| command | does |", "| --- | --- |"]
        for command in word.commands():
            names = word.name if word.name == command.name else f"{word.name} {command.name}"
            places = [_place(one) for one in command.arguments if not _is_flag(one)]
            usage = " ".join([names, *places])
            lines.append(f"| `{_safe(usage)}` | {_safe(command.help)} |")
        lines.append("")
        lines += ["```bash", *(command.example for command in word.commands()), "```", ""]
    lines += ["## Flags of every command", "", "| flag | meaning |", "| --- | --- |"]
    for one in (*CONNECTION, *OUTPUT):
        value = f" {one.options['metavar']}" if "metavar" in one.options else ""
        lines.append(f"| `{', '.join(one.names)}{value}` | {_safe(one.options['help'])} |")
    return "\n".join(lines) + "\n"


def _is_flag(one: Argument) -> bool:
    return one.names[0].startswith("-")


def _place(one: Argument) -> str:
    name = str(one.options["metavar"])
    return {"?": f"[{name}]", "*": f"[{name} ...]"}.get(one.options.get("nargs", ""), name)


def _safe(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
