"""Hashes of many texts are those of ``hashlib``."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pyarrow as pa
import pytest

from partition_ops.stages.ingest import transforms
from partition_ops.stages.ingest.hashes import blake2b_of


def texts() -> list[str]:
    """Texts of every length around the ends of words and blocks, and others at random."""
    generator = random.Random(5)
    found = [
        "".join(generator.choice("aé0|水🙂\0") for _ in range(generator.randrange(90))) for _ in range(2000)
    ]
    return ["x" * length for length in range(400)] + found


@pytest.mark.parametrize("cut", [0, 7])
def test_all_lengths(cut: int) -> None:
    given = texts()
    found = blake2b_of(pa.array(given).slice(cut))
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in given[cut:]]
    assert found.tolist() == [int.from_bytes(one, "little") for one in digests]
    assert len(blake2b_of(pa.array([], pa.string()))) == 0


def test_few_and_many_texts_have_the_same_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = pa.array(texts())
    few = transforms.hashes_of(given)
    monkeypatch.setattr(transforms, "MANY", 0)
    assert np.array_equal(transforms.hashes_of(given), few)
