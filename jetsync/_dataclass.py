"""dataclass: the decorator of the standard library, whose methods are compiled when first used.

Room:      hallway. May import: the standard library.
Touch me:  when frozen dataclasses behave otherwise than those of the standard library.
Not here:  the objects that are sent as JSON (jetstream/_wire.py), which are made with it.

The standard decorator compiles six methods of each class when its module is imported. That was
half of the time that ``import jetsync.jetstream`` took, for classes of which a program uses a few.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(**options: Any) -> Callable[[type[T]], type[T]]:
        """Make a frozen dataclass: ``dataclasses.dataclass`` with the same options and result, but
        ``__init__``, ``__repr__``, ``__eq__`` and ``__hash__`` are compiled at the first call of
        one of them (or the first look at the signature) and then are the standard library's.
        Without ``frozen`` it is the standard decorator.
        """
        if not options.pop("frozen", False):
            return dataclasses.dataclass(**options)
        return lambda plain: _made(plain, **options)


def _made(
    plain: type[T],
    *,
    slots: bool = False,
    kw_only: bool = False,
    repr: bool = True,
    eq: bool = True,
) -> type[T]:
    own = plain.__dict__.keys()
    wanted = ["__init__"]
    if repr and "__repr__" not in own:
        wanted.append("__repr__")
    if eq and "__eq__" not in own:
        wanted.append("__eq__")
    if eq and not {"__eq__", "__hash__"} & own:
        wanted.append("__hash__")
    make = dataclasses.dataclass(
        init=False, repr=False, eq=False, frozen=True, slots=slots, kw_only=kw_only
    )
    made = make(plain)
    _Compiler(made, wanted, repr=repr, eq=eq)
    return made


class _Compiler:
    """A stand-in for ``__signature__`` and the methods of a class until they are compiled."""

    def __init__(self, made: type, names: list[str], **options: Any) -> None:
        self._made, self._names, self._options = made, names, options
        for name in names:
            setattr(made, name, self._stand_in(name))
        made.__signature__ = self  # type: ignore[attr-defined]

    def _stand_in(self, name: str) -> Callable[..., Any]:
        def compile_and_call(this: Any, *args: Any, **keywords: Any) -> Any:
            self._compile()
            return getattr(self._made, name)(this, *args, **keywords)

        compile_and_call.__name__ = name
        compile_and_call.__qualname__ = f"{self._made.__qualname__}.{name}"
        return compile_and_call

    def __get__(self, this: object, owner: type) -> NoReturn:
        self._compile()
        raise AttributeError("__signature__")  # inspect.signature() reads __init__ then

    def _compile(self) -> None:
        made = self._made
        after = getattr(made, "__post_init__", None)
        twin = dataclasses.make_dataclass(
            made.__name__,
            [(field.name, field.type, _copy(field)) for field in dataclasses.fields(made)],
            namespace={"__qualname__": made.__qualname__, "__module__": made.__module__}
            | ({} if after is None else {"__post_init__": after}),
            frozen=True,
            **self._options,
        )
        for name in self._names:
            setattr(made, name, twin.__dict__[name])
        with contextlib.suppress(AttributeError):  # another thread was first
            del made.__signature__  # type: ignore[attr-defined]


def _copy(field: dataclasses.Field[Any]) -> Any:
    default: dict[str, Any] = {}
    if field.default is not dataclasses.MISSING:
        default["default"] = field.default
    elif field.default_factory is not dataclasses.MISSING:
        default["default_factory"] = field.default_factory
    return dataclasses.field(
        **default,
        init=field.init,
        repr=field.repr,
        hash=field.hash,
        compare=field.compare,
        kw_only=field.kw_only,
    )
