"""NKeys: the text form of Ed25519 keys, and signatures with them.

This module has the text form: base32 without padding of ``prefix | key | CRC-16``. The signing
itself is done by the ``cryptography`` package or, where that one is missing, by the ``nkeys``
package. Both are optional and loaded only when something is to be signed.
"""

from __future__ import annotations

import base64
import binascii
from typing import Protocol

from jetsync.errors import ConfigError

__all__ = [
    "decode_public",
    "decode_seed",
    "encode_public",
    "encode_seed",
    "public_key",
    "sign",
    "sign_nonce",
]

# Prefix bytes; the first base32 letter shows them.
SEED = 18 << 3  # S
OPERATOR = 14 << 3  # O
ACCOUNT = 0 << 3  # A
USER = 20 << 3  # U
SERVER = 13 << 3  # N
CLUSTER = 2 << 3  # C
CURVE = 23 << 3  # X

_PUBLIC_KINDS = {
    OPERATOR: "operator",
    ACCOUNT: "account",
    USER: "user",
    SERVER: "server",
    CLUSTER: "cluster",
    CURVE: "curve",
}
_KEY_BYTES = 32


def encode_public(prefix: int, key: bytes) -> str:
    """Write a public key as text. Raises ``ConfigError`` for a wrong prefix or length."""
    _check_parts(prefix, key)
    return _encode(bytes([prefix]) + key)


def decode_public(text: str) -> tuple[int, bytes]:
    """Read a public key: its prefix and 32 bytes. Raises ``ConfigError`` if it is not one."""
    raw = _decode(text, "public nkey")
    if len(raw) != 1 + _KEY_BYTES or raw[0] not in _PUBLIC_KINDS:
        raise ConfigError("the public nkey is not one: wrong length or first letter")
    return raw[0], raw[1:]


def encode_seed(prefix: int, key: bytes) -> str:
    """Write a seed as text. Raises ``ConfigError`` for a wrong prefix or length."""
    _check_parts(prefix, key)
    # The kind is squeezed in right behind the five bits that make the first letter an S.
    return _encode(bytes([SEED | prefix >> 5, (prefix & 31) << 3]) + key)


def decode_seed(text: str) -> tuple[int, bytes]:
    """Read a seed: the prefix of its kind and 32 bytes.

    Raises ``ConfigError`` if it is not a seed; the text never holds any of it.
    """
    raw = _decode(text, "nkey seed")
    if len(raw) != 2 + _KEY_BYTES or raw[0] & 0xF8 != SEED:
        raise ConfigError("the nkey seed is not one: seeds start with S and have 58 characters")
    prefix = (raw[0] & 7) << 5 | raw[1] >> 3
    if prefix not in _PUBLIC_KINDS:
        raise ConfigError("the nkey seed is of an unknown kind; a user seed starts with SU")
    return prefix, raw[2:]


def public_key(seed: str) -> str:
    """Return the public key of a user's seed as text (``U...``).

    Raises ``ConfigError`` if it is no user seed or no package that signs is installed.
    """
    return encode_public(USER, _signer(seed).public_key())


def sign(seed: str, data: bytes) -> bytes:
    """Return the Ed25519 signature (64 bytes) of ``data``.

    Raises ``ConfigError`` if it is no user seed or no package that signs is installed.
    """
    return _signer(seed).sign(data)


def sign_nonce(seed: str, nonce: str) -> str:
    """Return the ``sig`` field of CONNECT: the signed nonce in base64url without padding."""
    return signature_text(sign(seed, nonce.encode("utf-8")))


def signature_text(signature: bytes) -> str:
    """Write a signature as CONNECT takes it: base64url without padding."""
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode("ascii")


class _Signer(Protocol):
    """The object that signs with one user's key."""

    def public_key(self) -> bytes: ...

    def sign(self, data: bytes) -> bytes: ...


def _signer(seed: str) -> _Signer:
    prefix, key = decode_seed(seed)
    if prefix != USER:
        raise ConfigError(
            f"the nkey seed is a seed of kind {_PUBLIC_KINDS[prefix]!r}; "
            "connecting takes a user seed, which starts with SU"
        )
    for signer in (_ByCryptography, _ByNkeys):
        try:
            return signer(key)
        except ImportError:
            continue
    raise ConfigError(
        "signing with nkeys or a .creds file needs the cryptography package: "
        'pip install "jetsync[nkeys]"'
    )


class _ByCryptography:
    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._private = Ed25519PrivateKey.from_private_bytes(key)

    def public_key(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)


class _ByNkeys:
    def __init__(self, key: bytes) -> None:
        import nkeys

        self._pair = nkeys.from_seed(encode_seed(USER, key).encode("ascii"))

    def public_key(self) -> bytes:
        return decode_public(bytes(self._pair.public_key).decode("ascii"))[1]

    def sign(self, data: bytes) -> bytes:
        return bytes(self._pair.sign(data))


def _check_parts(prefix: int, key: bytes) -> None:
    if prefix not in _PUBLIC_KINDS:
        raise ConfigError(f"{prefix} is not the prefix byte of an nkey")
    if len(key) != _KEY_BYTES:
        raise ConfigError(f"an nkey has {_KEY_BYTES} bytes, not {len(key)}")


def _checksum(raw: bytes) -> bytes:
    # crc_hqx is CRC-16/XMODEM, the one that nkeys use.
    return binascii.crc_hqx(raw, 0).to_bytes(2, "little")


def _encode(raw: bytes) -> str:
    return base64.b32encode(raw + _checksum(raw)).rstrip(b"=").decode("ascii")


def _decode(text: str, what: str) -> bytes:
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:  # also what non-ASCII text raises
        raise ConfigError(f"the {what} is not base32 text") from None
    if len(raw) < 3 or _checksum(raw[:-2]) != raw[-2:] or _encode(raw[:-2]) != text:
        raise ConfigError(f"the {what} has a wrong checksum: a character was lost or changed")
    return raw[:-2]
