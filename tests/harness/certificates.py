"""Certificates for the real nats-server and its clients, made anew for each run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import trustme


@dataclasses.dataclass(frozen=True)
class Certificates:
    """PEM files: an authority, what it signed, and a stranger's authority."""

    ca: Path
    server: Path
    server_key: Path
    misnamed: Path
    misnamed_key: Path
    client: Path
    client_key: Path
    stranger_ca: Path
    stranger: Path
    stranger_key: Path

    def server_config(self, **changes: Any) -> dict[str, Any]:
        """The `tls` block of a nats-server."""
        block = {"cert_file": str(self.server), "key_file": str(self.server_key)}
        return {"tls": {**block, **changes}}


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    ours, strange = trustme.CA(), trustme.CA()
    files: dict[str, Path] = {}

    def write(name: str, leaf: trustme.LeafCert) -> None:
        files[name] = folder / f"{name}.pem"
        files[f"{name}_key"] = folder / f"{name}-key.pem"
        leaf.cert_chain_pems[0].write_to_path(files[name])
        leaf.private_key_pem.write_to_path(files[f"{name}_key"])

    for name, authority in (("ca", ours), ("stranger_ca", strange)):
        files[name] = folder / f"{name}.pem"
        authority.cert_pem.write_to_path(files[name])
    write("server", ours.issue_cert("localhost", "127.0.0.1", "nats.example"))
    write("misnamed", ours.issue_cert("elsewhere.example"))
    write("client", ours.issue_cert("client@example.org"))
    write("stranger", strange.issue_cert("client@example.org"))
    return Certificates(**files)
