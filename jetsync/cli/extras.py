"""The extras of this package: what each brings, and which of it is installed here."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass

__all__ = ["Extra", "extras", "installed"]

_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[.*?\])?(?:>=([\d.]+))?.*?;.*extra == ['\"](\w+)['\"]")
_OF_DEVELOPERS = ("all", "demo", "dev")


@dataclass
class Extra:
    """An extra: the packages that are not installed, and those that are too old for it."""

    name: str
    missing: list[str]
    old: list[str]


def extras() -> list[Extra]:
    """Return the extras of the installed package, none where its metadata is not there."""
    found: dict[str, Extra] = {}
    for package, least, name in _requirements():
        extra = found.setdefault(name, Extra(name, [], []))
        version = _version(package)
        if version is None:
            extra.missing.append(package)
        elif _numbers(version) < _numbers(least):
            extra.old.append(f"{package} {version} (needed: {least})")
    return list(found.values())


def installed() -> dict[str, str]:
    """Return the versions of the packages of extras that are installed."""
    names = dict.fromkeys(package for package, _, _ in _requirements())
    versions = {name: _version(name) for name in names}
    return {name: version for name, version in versions.items() if version is not None}


def _requirements() -> list[tuple[str, str, str]]:
    """Return package, least version and extra of each requirement."""
    try:
        lines = importlib.metadata.requires("jetsync") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = [match.groups("") for line in lines if (match := _REQUIREMENT.match(line))]
    return [
        (package, least, extra)
        for package, least, extra in found
        if extra not in _OF_DEVELOPERS and package != "jetsync"
    ]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
