"""A number before its noun: "1 message", "2 messages"."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: float, one: str, many: str | None = None, form: str = "") -> str:
    """Return ``number`` with the noun in the form that fits it; a verb may follow the noun.

    ``one`` follows 1 ("message was"), ``many`` each other number ("messages were"); without it
    ``one`` gets an s. ``form`` is the format of the number: "," gives "2,000 messages".
    """
    return f"{number:{form}} {one if number == 1 else many or one + 's'}"
