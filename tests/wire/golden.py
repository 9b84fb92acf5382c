"""Frames that a real nats-server sent, one per sample, byte for byte."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parent / "wire-samples.json"


@dataclass(frozen=True)
class Sample:
    name: str
    meaning: str
    data: bytes


def samples() -> list[Sample]:
    return [
        Sample(entry["name"], entry["meaning"], base64.b64decode(entry["base64"]))
        for entry in json.loads(FILE.read_text())["samples"]
    ]
