"""The project's dataclass decorator makes what the one of the standard library makes, later."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading

import pytest

from jetsync._dataclass import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """Ours."""

    name: str = "n"
    tags: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("no name")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ours(Base):
    """Ours, with a base."""

    secret: str = dataclasses.field(default="s", repr=False)
    note: int = dataclasses.field(default=1, compare=False)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Theirs(Base):
    """The standard library's, with the same base."""

    secret: str = dataclasses.field(default="s", repr=False)
    note: int = dataclasses.field(default=1, compare=False)


@dataclass(frozen=True)
class Pair:
    """One that hashes."""

    left: int
    right: int = 2


def test_it_shows_the_same_fields_signature_and_text() -> None:
    assert inspect.signature(Ours) == inspect.signature(Theirs)
    assert [f.name for f in dataclasses.fields(Ours)] == ["name", "tags", "secret", "note"]
    assert repr(Ours(name="a")) == repr(Theirs(name="a")).replace("Theirs", "Ours")
    assert Ours.__match_args__ == Theirs.__match_args__
    assert Ours.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_objects_compare_hash_copy_and_travel() -> None:
    one = Ours(name="a", tags=["x"], note=5)
    assert one == Ours(name="a", tags=["x"], note=6)
    assert one != Ours(name="b", tags=["x"])
    assert dataclasses.replace(one, name="c").name == "c"
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert pickle.loads(pickle.dumps(one)).note == 5
    assert hash(Pair(1)) == hash(Pair(1, 2))
    assert pickle.loads(pickle.dumps(Pair(3))) == Pair(3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_fields_can_neither_be_changed_nor_deleted() -> None:
    for made in (Ours(name="a"), Pair(1)):
        field = dataclasses.fields(made)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign"):
            setattr(made, field, "b")
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete"):
            delattr(made, field)


def test_wrong_arguments_are_refused_as_by_the_standard_library() -> None:
    with pytest.raises(TypeError, match=r"Ours.__init__\(\) got an unexpected keyword"):
        Ours(nmae="a")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="no name"):
        Ours(name="")


def test_a_class_that_many_threads_use_first_is_compiled_right() -> None:
    for _ in range(20):

        @dataclass(frozen=True)
        class Fresh:
            value: int

        made: list[Fresh] = []
        start = threading.Barrier(4)

        def make(kind: type[Fresh], made: list[Fresh], start: threading.Barrier) -> None:
            start.wait()
            made.append(kind(7))

        threads = [threading.Thread(target=make, args=(Fresh, made, start)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [Fresh(7)] * 4
        assert str(inspect.signature(Fresh)) == "(value: 'int') -> None"
