"""The public surface: what `import jetsync` gives, and what it costs."""

from __future__ import annotations

import ast
import subprocess
import sys

import jetsync

NAMES = """
connect ConnectOptions Connection shared_connection Subscription Msg Headers Event Status TLSConfig
JetStream Stream StoredMsg Consumer MsgBatch JetStreamMsg MsgMetadata MessageStream ConsumeContext
PubAck PublishReport AUTO parse_ack_subject
StreamConfig StreamInfo ConsumerConfig ConsumerInfo AckPolicy DeliverPolicy RetentionPolicy
Error ConfigError ConnectError NoServersError AuthorizationError TLSRequiredError
ConnectionClosedError ForkedError DrainingError StaleConnectionError ServerError PermissionsError
ProtocolError TimeoutError NoRespondersError MaxPayloadError OutboundFullError SlowConsumerError
JetStreamError APIError StreamNotFoundError ConsumerNotFoundError StreamNameInUseError
ConsumerExistsError WrongLastSequenceError MessageNotFoundError JetStreamNotEnabledError
NotJetStreamMessageError ConsumerDeletedError PullTerminatedError PublishError NotStoredError
PullUnansweredError PublishUnknownError
"""
CONTRACT = NAMES.split()


def test_every_name_of_the_contract_can_be_imported_from_the_top():
    missing = [name for name in CONTRACT if not hasattr(jetsync, name)]
    assert not missing


def test_errors_show_their_public_home():
    for name in CONTRACT:
        value = getattr(jetsync, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert value.__module__ == "jetsync", name


def test_errors_are_what_python_users_catch():
    assert issubclass(jetsync.TimeoutError, TimeoutError)
    assert issubclass(jetsync.ConfigError, ValueError)
    assert issubclass(jetsync.ConnectionClosedError, ConnectionError)
    assert issubclass(jetsync.PublishUnknownError, TimeoutError)


def test_the_import_needs_no_third_party_package():
    code = (
        "import sys; before = set(sys.modules); import jetsync, jetsync.server, jetsync.spark;"
        "print({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The compiled modules register Cython's own runtime under names of its own.
    found = {name for name in ast.literal_eval(done.stdout) if "cython" not in name}
    assert found == {"jetsync"}
