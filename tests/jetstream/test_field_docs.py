"""help() of a field shows the text below it; a notebook shows infos as tables."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc

import pytest

import jetsync
from jetsync.jetstream._field_docs import FieldDocs

CONFIGURATIONS = [
    jetsync.StreamConfig,
    jetsync.ConsumerConfig,
    jetsync.KeyValueConfig,
    jetsync.ObjectStoreConfig,
    jetsync.StreamSource,
    jetsync.Placement,
    jetsync.StreamInfo,
    jetsync.StreamState,
    jetsync.ConsumerInfo,
    jetsync.AccountInfo,
]


@pytest.mark.parametrize("kind", CONFIGURATIONS, ids=lambda kind: kind.__name__)
def test_help_of_every_field_shows_its_docstring(kind):
    texts = {name: inspect.getdoc(getattr(kind, name)) for name in kind.__slots__}
    assert [name for name, text in texts.items() if not text] == []
    assert "How long" in pydoc.plain(pydoc.render_doc(vars(jetsync.StreamConfig)["max_age"]))


def test_a_class_without_source_has_fields_without_docstrings():
    kind = type("Made", (), {"__slots__": ("a",)})
    assert FieldDocs(kind, ["a"])["a"] == ""


def test_configurations_are_copied_and_pickled_as_before():
    config = jetsync.StreamConfig(name="A", max_age=5, metadata={"a": "b"})
    for twin in (pickle.loads(pickle.dumps(config)), copy.copy(config), copy.deepcopy(config)):
        assert twin == config


def test_a_table_has_the_fields_that_were_set_and_escapes_what_peers_wrote():
    config = jetsync.StreamConfig(
        name="A",
        description="<script>alert(1)</script>\x1b[2J",
        max_bytes=1_000_000,
        sources=[jetsync.StreamSource(name="B"), jetsync.StreamSource(name="C")],
    )
    html = config._repr_html_()
    assert "<th>max_bytes</th><td>1,000,000</td>" in html
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "\x1b" not in html
    assert html.count("<caption>StreamSource</caption>") == 2
    assert "max_age" not in html
