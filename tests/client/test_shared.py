"""shared_connection: one connection for equal options, also when they hold new functions."""

from __future__ import annotations

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


def test_other_options_are_another_connection():
    assert identity(options(print, name="a")) != identity(options(print, name="b"))
    servers = ["nats://a:1", "nats://b:1"]
    assert identity(options(print, servers=servers)) == identity(options(print, servers=[*servers]))
