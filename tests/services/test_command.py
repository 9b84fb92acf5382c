"""``jetsync service`` shows what services say, for people and for programs."""

from __future__ import annotations

import pytest

from tests.cli.run_command import run

LONG = 20


@pytest.fixture
def service(nc, client, name):
    with nc.add_service(name, "1.0.0", description="adds", metadata={"a": "b"}) as made:
        made.add_endpoint("sum", lambda request: b"3", subject=f"{name}.sum")
        nc.flush()
        client.call(f"{name}.sum")
        yield made


@pytest.mark.parametrize("verb", ["info", "stats"])
def test_the_documents_are_printed_as_they_are(url, service, verb):
    document = (service.info if verb == "info" else service.stats)().to_dict()
    for which in ((service.name,), (service.name, service.id)):
        assert run("service", verb, *which, "-s", url, "--json").json == [document]
    said = run("service", verb, service.name, "-s", url).out
    assert service.id in said
    assert ("adds" if verb == "info" else "sum") in said


def test_all_services_are_listed_and_pinged(url, service):
    listed = run("service", "ls", "-s", url, "--json").json
    assert service.info().to_dict() in listed
    (line,) = [one for one in run("service", "ls", "-s", url).out.splitlines() if service.id in one]
    assert line.split() == [service.name, "1.0.0", service.id, "1", "adds"]
    (found,) = run("service", "ping", service.name, "-s", url, "--json").json
    assert found.pop("rtt") > 0
    assert found == service.ping().to_dict()
    assert service.id in run("service", "ping", "-s", url).out


@pytest.mark.parametrize("verb", ["info", "stats", "ping"])
def test_a_service_that_is_not_there_ends_with_code_3(url, verb):
    done = run("service", verb, "nothing-of-this-name", "-s", url)
    assert done.code == 3
    assert "nothing-of-this-name" in done.err
