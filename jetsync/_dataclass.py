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
    named = {
        "__init__": True,
        "__repr__": repr and "__repr__" not in plain.__dict__,
        "__eq__": eq and "__eq__" not in plain.__dict__,
        "__hash__": eq and not {"__eq__", "__hash__"} & plain.__dict__.keys(),
    }
    bases = [_parameters(base) for base in plain.__mro__[1:] if dataclasses.is_dataclass(base)]
    # A class that is not frozen yet may only have bases of which that is said, too.
    for base in bases:
        base.frozen = False
    try:
        made = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=slots, kw_only=kw_only
        )(plain)
    finally:
        for base in bases:
            base.frozen = True
    _parameters(made).frozen = True
    fields = dataclasses.fields(made)  # type: ignore[arg-type]
    _freeze(made, frozenset(field.name for field in fields))
    if slots:
        made.__getstate__ = _state  # type: ignore[attr-defined]
        made.__setstate__ = _set_state  # type: ignore[attr-defined]
    wanted = [name for name, asked in named.items() if asked]
    _Compiler(made, wanted, repr=repr, eq=eq)
    return made


def _parameters(of: type) -> Any:
    return of.__dict__["__dataclass_params__"]


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


def _freeze(made: type, names: frozenset[str]) -> None:
    kind: Any = made

    def set_attribute(self: object, name: str, value: object) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    made.__setattr__ = set_attribute  # type: ignore[assignment]
    made.__delattr__ = delete_attribute  # type: ignore[assignment]


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
