"""jet_blake2 makes the digests that the standard library makes."""

from __future__ import annotations

import hashlib
import random

import pytest

from tests.csrc.library import blake2

RANDOM = random.Random(7693)
TEXT = RANDOM.randbytes(3000)


@pytest.mark.parametrize("size", [1, 12, 20, 63, 64])
def test_digests_of_all_lengths_around_blocks_are_the_standard_librarys(size):
    for length in [*range(700), 1023, 1024, 1025, 3000]:
        expected = hashlib.blake2b(TEXT[:length], digest_size=size).digest()
        assert blake2(size, TEXT[:length]) == expected


def test_digests_of_bytes_in_pieces_are_the_standard_librarys():
    for _ in range(300):
        pieces = [TEXT[: RANDOM.randrange(300)] for _ in range(RANDOM.randrange(6))]
        expected = hashlib.blake2b(b"".join(pieces), digest_size=12).digest()
        assert blake2(12, *pieces) == expected
