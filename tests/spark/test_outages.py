"""What counts as an outage, and what importing needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jetsync import errors
from jetsync.spark.connection import is_transient

TRANSIENT = [
    errors.NoServersError("all down"),
    errors.DisconnectedError("cut"),
    errors.StaleConnectionError("silent"),
    errors.TimeoutError("late"),
    errors.NoRespondersError("not yet"),
    errors.OutboundFullError("slow"),
    errors.ConnectionClosedError("closed"),
    errors.ForkedError("other process"),
    errors.APIError("no leader", code=503, err_code=10008),
]
FINAL = [
    errors.AuthorizationError("wrong password"),
    errors.TLSRequiredError("no tls"),
    errors.PermissionsError("not yours"),
    errors.APIError("no stream", code=404, err_code=10059),
    errors.ConfigError("wrong"),
    errors.MaxPayloadError("big"),
    ValueError("bug"),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
def test_outages_are_waited_for(error):
    assert is_transient(error)


@pytest.mark.parametrize("error", FINAL, ids=lambda error: type(error).__name__)
def test_what_repeating_cannot_help_is_final(error):
    assert not is_transient(error)


def test_importing_the_room_loads_neither_pyspark_nor_pyarrow():
    code = (
        "import sys, jetsync.spark\n"
        "loaded = [n for n in sys.modules if n.split('.')[0] in ('pyspark', 'pyarrow', 'pandas')]\n"
        "assert not loaded, loaded[:5]\n"
        "assert jetsync.spark.register and jetsync.spark.connection and jetsync.spark.lag"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
