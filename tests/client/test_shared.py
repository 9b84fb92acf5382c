"""shared_connection: one connection for equal options, also when they hold new functions."""

from __future__ import annotations

import types

import jetsync
from jetsync.client.sameness import identity


def options(on_error, **more):
    return jetsync.ConnectOptions(on_error=on_error, **more)


def collector(found):
    return lambda error: found.append(error)


def test_a_lambda_of_a_loop_makes_one_connection(url):
    found = [
        jetsync.shared_connection(url, name="loop", on_error=lambda error: None) for _ in range(5)
    ]
    try:
        assert len(set(map(id, found))) == 1
    finally:
        found[0].close()


def test_functions_are_equal_by_their_code_and_variables():
    def named(text):
        return options(lambda error: print(text, error))

    assert identity(named("a")) == identity(named("a"))
    assert identity(named("a")) != identity(named("b"))
    assert identity(options(lambda error: None)) != identity(options(lambda error: print(error)))
    assert identity(options(print)) == identity(options(print))


def test_functions_whose_variables_have_no_hash_are_equal_to_themselves_only():
    one = collector([])
    assert identity(options(one)) == identity(options(one))
    assert identity(options(one)) != identity(options(collector([])))


def test_functions_are_equal_by_the_variables_of_their_module_too():
    """As they come out of a pickle: each with variables of its own, under one module name."""

    def with_token(function, **values):
        return types.FunctionType(function.__code__, {"__name__": __name__, **values})

    def signed(function, **values):
        return identity(options(print, user="u", password=with_token(function, **values)))

    direct, inner = (lambda: TOKEN), (lambda: next(TOKEN for _ in "x"))  # type: ignore[name-defined]  # noqa: F821
    for function in (direct, inner):
        assert signed(function, TOKEN="a") == signed(function, TOKEN="a")
        assert signed(function, TOKEN="a") != signed(function, TOKEN="b")
        assert signed(function, TOKEN=["a"]) != signed(function, TOKEN=["a"])
    asking = lambda: ask()  # type: ignore[name-defined] # noqa: E731, F821

    def by(token):
        return signed(asking, ask=with_token(direct, TOKEN=token))

    assert by("a") == by("a")
    assert by("a") != by("b")


def test_headers_of_websockets_are_compared_by_their_values():
    def sent(**headers):
        return identity(jetsync.ConnectOptions("ws://a:1", ws_headers=headers))

    assert sent(a="1", b="2") == sent(b="2", a="1")
    assert sent(a="1") != sent(a="2")
    assert hash(sent(a="1")) == hash(sent(a="1"))


def test_other_options_are_another_connection():
    assert identity(options(print, name="a")) != identity(options(print, name="b"))
    servers = ["nats://a:1", "nats://b:1"]
    assert identity(options(print, servers=servers)) == identity(options(print, servers=[*servers]))
