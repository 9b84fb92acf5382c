"""FieldDocs: the docstrings of a dataclass's fields for help(), read from its source at first use.

``help(StreamConfig.max_age)`` and ``StreamConfig.max_age?`` in IPython show the text that stands
below the field. Python looks for it in ``__slots__``, if that is a dict.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterable

__all__ = ["FieldDocs"]


class FieldDocs(dict[str, str]):
    """The ``__slots__`` of a class: the names of its fields, each with its docstring."""

    def __init__(self, owner: type, names: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(names, ""))
        self._owner: type | None = owner

    def __getitem__(self, name: str) -> str:
        owner, self._owner = self._owner, None
        if owner is not None:
            self.update(_read(owner))
        return super().__getitem__(name)


def _read(owner: type) -> dict[str, str]:
    """The docstrings below the fields of a class; none where its source is not installed."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
