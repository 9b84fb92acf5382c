"""The classes of configurations and infos have exactly the fields of the server."""

from __future__ import annotations

import dataclasses

import pytest

from jetsync.jetstream.config.stream import StreamSource
from tests.conformance.server_fields import FIELDS

SHORT_FORMS = {StreamSource: {"domain"}}
"""Fields that become others before anything is sent, as in nats.go."""


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_a_class_has_exactly_the_fields_of_the_server(kind):
    names = {field.name for field in dataclasses.fields(kind)} - {"extra", "_exact"}
    assert names - SHORT_FORMS.get(kind, set()) == set(FIELDS[kind].split())
