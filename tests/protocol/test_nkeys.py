"""NKeys: our text form agrees with the nkeys package, and signatures verify."""

from __future__ import annotations

import base64
import sys

import nkeys as package
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetsync.errors import ConfigError
from jetsync.protocol import nkeys

RAW = bytes(range(32))
SEED = nkeys.encode_seed(nkeys.USER, RAW)

KINDS = [nkeys.OPERATOR, nkeys.ACCOUNT, nkeys.USER, nkeys.SERVER, nkeys.CLUSTER, nkeys.CURVE]
KEYS = st.binary(min_size=32, max_size=32)


@settings(deadline=None)
@given(st.sampled_from(KINDS), KEYS)
def test_what_is_encoded_decodes_to_the_same(kind: int, raw: bytes) -> None:
    assert nkeys.decode_seed(nkeys.encode_seed(kind, raw)) == (kind, raw)
    assert nkeys.decode_public(nkeys.encode_public(kind, raw)) == (kind, raw)


@settings(deadline=None)
@given(st.sampled_from(KINDS[:-1]), KEYS)
def test_the_text_form_is_that_of_the_nkeys_package(kind: int, raw: bytes) -> None:
    assert nkeys.encode_seed(kind, raw).encode() == package.encode_seed(raw, kind)


@pytest.mark.parametrize(
    ("kind", "letter"), list(zip(KINDS, "OAUNCX", strict=True)), ids=list("OAUNCX")
)
def test_the_first_letters_show_the_kind(kind: int, letter: str) -> None:
    assert nkeys.encode_public(kind, RAW)[0] == letter
    assert nkeys.encode_seed(kind, RAW)[:2] == "S" + letter


@settings(deadline=None)
@given(st.integers(0, len(SEED) - 1), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_one_changed_character_is_found_and_not_shown(position: int, letter: str) -> None:
    changed = SEED[:position] + letter + SEED[position + 1 :]
    if changed == SEED:
        return
    with pytest.raises(ConfigError) as caught:
        nkeys.decode_seed(changed)
    assert changed[4:] not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "S",
        "SU",
        "not base32!",
        SEED.lower(),
        SEED + "=",
        SEED + "\n",
        SEED[:-1],
        "é" * 58,
        SEED + SEED,
        nkeys.encode_public(nkeys.USER, RAW),
    ],
)
def test_what_is_no_seed_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        nkeys.decode_seed(text)


@pytest.mark.parametrize("text", ["", "U", SEED, nkeys.encode_public(nkeys.USER, RAW)[:-1]])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        nkeys.decode_public(text)


@pytest.mark.parametrize(("kind", "raw"), [(nkeys.USER, b"short"), (7, RAW), (nkeys.SEED, RAW)])
def test_impossible_parts_are_not_encoded(kind: int, raw: bytes) -> None:
    with pytest.raises(ConfigError):
        nkeys.encode_public(kind, raw)
    with pytest.raises(ConfigError):
        nkeys.encode_seed(kind, raw)


def test_public_key_is_that_of_the_seed() -> None:
    text = nkeys.public_key(SEED)
    assert text.startswith("U")
    assert nkeys.decode_public(text)[0] == nkeys.USER
    assert text.encode() == package.from_seed(SEED.encode()).public_key


@pytest.mark.parametrize("nonce", ["P6pLGkVDA9w2Xg", "", "né"])
def test_a_signature_verifies_with_the_public_key_over_the_bytes_of_the_nonce(nonce: str) -> None:
    text = nkeys.sign_nonce(SEED, nonce)
    assert not set(text) & set("=+/")
    signature = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert len(signature) == 64
    assert package.from_seed(SEED.encode()).verify(nonce.encode(), signature)


@pytest.mark.parametrize("kind", [nkeys.ACCOUNT, nkeys.OPERATOR])
def test_only_a_user_seed_signs(kind: int) -> None:
    with pytest.raises(ConfigError, match="user seed"):
        nkeys.sign(nkeys.encode_seed(kind, RAW), b"nonce")


@pytest.mark.parametrize("missing", ["cryptography.hazmat.primitives.asymmetric.ed25519", "nkeys"])
def test_either_package_signs_alike(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    both = nkeys.public_key(SEED), nkeys.sign(SEED, b"nonce")
    monkeypatch.setitem(sys.modules, missing, None)
    assert (nkeys.public_key(SEED), nkeys.sign(SEED, b"nonce")) == both


def test_without_the_packages_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    monkeypatch.setitem(sys.modules, "nkeys", None)
    with pytest.raises(ConfigError, match=r'pip install "jetsync\[nkeys\]"'):
        nkeys.sign(SEED, b"nonce")
