"""Operator, account and user of our own, for servers that are configured with JWTs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from typing import Any

import nkeys as signing

from jetsync.protocol import nkeys


class Keys:
    """One pair of keys: ``seed`` and ``public`` as text."""

    def __init__(self, kind: int) -> None:
        self.seed = nkeys.encode_seed(kind, os.urandom(32))
        self._pair = signing.from_seed(self.seed.encode())
        self.public = bytes(self._pair.public_key).decode()

    def claim(
        self,
        subject: str,
        name: str,
        fields: dict[str, Any],
        expires: float = 0,
        audience: str = "",
    ) -> str:
        """Return a signed JWT about ``subject``; ``expires`` is on the wall clock, 0 for never."""
        body: dict[str, Any] = {
            "iat": int(time.time()),
            "iss": self.public,
            "sub": subject,
            "name": name,
            "nats": {"version": 2, **fields},
        }
        if expires:
            body["exp"] = int(expires)
        if audience:
            body["aud"] = audience
        body["jti"] = _text(hashlib.sha256(json.dumps(body).encode()).digest())
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        signed = f"{_text(json.dumps(head).encode())}.{_text(json.dumps(body).encode())}"
        return f"{signed}.{_text(bytes(self._pair.sign(signed.encode())))}"


class Accounts:
    """An operator with one account; ``config`` is for the server, ``user()`` for clients."""

    def __init__(self) -> None:
        self._operator, self._account = Keys(nkeys.OPERATOR), Keys(nkeys.ACCOUNT)
        self.user = Keys(nkeys.USER)
        operator = self._operator.public
        limits = {"subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1, "imports": -1}
        limits |= {"exports": -1, "wildcards": True}
        self._account_jwt = self._operator.claim(
            self._account.public, "account", {"type": "account", "limits": limits}
        )
        self._operator_jwt = self._operator.claim(operator, "operator", {"type": "operator"})

    @property
    def config(self) -> str:
        return (
            f"operator: {self._operator_jwt}\n"
            "resolver: MEMORY\n"
            f"resolver_preload: {{ {self._account.public}: {self._account_jwt} }}\n"
        )

    def user_jwt(self, expires: float = 0) -> str:
        """Return a user's JWT."""
        fields = {"type": "user", "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}
        return self._account.claim(self.user.public, "user", fields, expires)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
