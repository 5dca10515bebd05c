"""Faults of an S3 server: one call gets through, and damaged bytes are noticed."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.s3_jobs import RequestCounter
from partition_ops.errors import TransientStorageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import StorageSettings, Store, open_store, s3_conditions, s3_reader, s3_transfers
from partition_ops.storage.store import sha256_of_object
from tests.faulty_s3 import Faults, faulty
from tests.graphs import library
from tests.uploads import upload_folder

UNTIMED = ("partitions/", "idmap/", "assignment/", "schema/", "formats/")  # other artifacts contain times
DATA = os.urandom(3000)
SHA256 = hashlib.sha256(DATA).hexdigest()


def artifacts(root: Store) -> dict[str, bytes]:
    return {entry.key: root.read_bytes(entry.key) for entry in root.list() if entry.key.startswith(UNTIMED)}


@pytest.mark.long
def test_one_call_gets_through(s3_settings: StorageSettings, s3_root: str, tmp_path: Path) -> None:
    """Of ten requests, one fails; of a hundred reads, five arrive with another bit."""
    with open_store(f"{s3_root}/in", s3_settings) as store:
        upload_folder(library().write(tmp_path / "graph"), store)
    faults = Faults(20, flipped=0.05, flipped_uploads=0.05, late=0.2)
    config = RunConfig(num_parts=2, engine="random", ignore_estimate=True)
    run_job(config, open_store(str(tmp_path / "graph")), open_store(str(tmp_path / "out")))
    with (
        faulty(s3_settings, faults) as settings,
        open_store(f"{s3_root}/in", settings) as source,
        open_store(f"{s3_root}/out", settings) as destination,
    ):
        run_job(config, source, destination)
    assert all(faults.seen[kind] for kind in (*faults.kinds, "flipped")), faults.seen
    with open_store(f"{s3_root}/out", s3_settings) as store:
        assert artifacts(store) == artifacts(open_store(str(tmp_path / "out")))


READS: dict[str, Callable[[Store], object]] = {
    "whole": lambda store: store.read_bytes("a"),
    "part": lambda store: store.read_range("a", 10, 2990),
    "part with a checksum": lambda store: store.read_range("a", 10, 2990, crc32=zlib.crc32(DATA[10:2990])),
    "copy": lambda store: store.local_copy("a").read_bytes(),
    "checked copy": lambda store: (store.checked_copy("a", SHA256) or Path("missing")).read_bytes(),
    "digest": lambda store: sha256_of_object(store, "a", len(DATA), SHA256),
    "list": lambda store: [*store.list()],
}


@pytest.mark.parametrize("etags", ["MD5", "others"])
def test_a_flipped_bit_is_noticed(
    s3_settings: StorageSettings, s3_root: str, monkeypatch: pytest.MonkeyPatch, etags: str
) -> None:
    if etags == "others":
        monkeypatch.setattr(s3_reader, "etag_of", lambda blocks: "x")
        monkeypatch.setattr(s3_transfers, "etag_of_file", lambda path, part_bytes: "x")
    with open_store(s3_root, s3_settings) as store:
        store.write_bytes("a", DATA)
        right = {name: read(store) for name, read in READS.items()}
    faults = Faults(1, share=0, flipped=0.25)
    with faulty(s3_settings, faults) as settings:
        for _ in range(6):
            with open_store(s3_root, settings) as store:
                assert {name: read(store) for name, read in READS.items()} == right
    assert faults.seen["flipped"] > 2


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ("part", 2),
        ("part with a checksum", 1),
        ("part that is compared", 1),
        ("digest", 1),
        ("another digest", 3),  # once as it should be, and until two reads are equal
    ],
)
def test_what_is_compared_with_a_checksum_is_read_once(
    s3_settings: StorageSettings, s3_root: str, read: str, expected: int
) -> None:
    more: dict[str, Callable[[Store], object]] = {
        "part that is compared": lambda store: store.read_range("a", 10, 2990, compared=True),
        "another digest": lambda store: sha256_of_object(store, "a", len(DATA), "0" * 64),
    }
    with open_store(s3_root, s3_settings) as store:
        store.write_bytes("a", DATA)
    with RequestCounter().counting() as seen, open_store(s3_root, s3_settings) as store:
        assert (READS | more)[read](store) in (DATA[10:2990], SHA256)
    gets = [count for (verb, key), count in seen.items() if verb == "GET" and key.endswith("/a")]
    assert sum(gets) == expected


def test_a_copy_with_a_known_digest_is_hashed_once(
    s3_settings: StorageSettings, s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []

    def sha256_of(path: Path) -> str:
        hashed.append(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(s3_reader, "sha256_of", sha256_of)
    with open_store(s3_root, s3_settings) as store:
        store.write_bytes("a", DATA)
    with open_store(s3_root, s3_settings) as store:
        with monkeypatch.context() as patch:
            patch.delattr(s3_transfers, "etag_of_file")  # the MD5 is not computed
            store.fetch_ahead(["a"], {"a": SHA256})
            copies = [store.checked_copy("a", SHA256) for _ in range(3)]
        assert copies == [store.local_copy("a")] * 3
        assert len(hashed) == 1
        assert store.checked_copy("a", "0" * 64) is None
        store.write_bytes("a", DATA[1:])  # forgets what is known of the copy
        assert store.checked_copy("a", SHA256) is None
        assert store.local_copy("a").read_bytes() == DATA[1:]


def test_the_digest_of_a_copy_that_is_gone_is_forgotten(s3_settings: StorageSettings, s3_root: str) -> None:
    with open_store(s3_root, s3_settings) as store, open_store(s3_root, s3_settings) as other:
        store.write_bytes("a", DATA)
        copy = store.checked_copy("a", SHA256)
        assert copy is not None
        copy.unlink()  # by something that removes old files
        other.write_bytes("a", DATA[1:])
        assert store.local_copy("a").read_bytes() == DATA[1:]
        assert store.checked_copy("a", SHA256) is None


def test_bytes_without_the_known_checksum_are_refused(s3_settings: StorageSettings, s3_root: str) -> None:
    with open_store(s3_root, s3_settings) as store:
        store.write_bytes("a", DATA)
    with (
        open_store(s3_root, s3_settings) as store,
        pytest.raises(TransientStorageError, match="does not have the bytes that were written"),
    ):
        store.read_range("a", 10, 2990, crc32=0)


def test_a_flipped_bit_of_a_lock_is_noticed(
    s3_settings: StorageSettings, s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_conditions, "SETTLE_SECONDS", 0)
    faults = Faults(3, share=0, flipped=0.25, flipped_uploads=0.25)
    with faulty(s3_settings, faults) as settings, open_store(s3_root, settings) as store:
        for number in range(8):
            before = f"{number - 1}".encode() if number else None
            assert store.compare_and_set("lock", f"{number}".encode(), expected=before)
    assert faults.seen["flipped"] > 1


def test_a_flipped_bit_of_a_large_object_is_noticed(s3_settings: StorageSettings, s3_root: str) -> None:
    """Only the part with the bit is downloaded until it is right."""
    data = os.urandom(s3_transfers.PART_BYTES) * 4
    with open_store(s3_root, s3_settings) as store:
        store.write_bytes("a", data)
    faults = Faults(7, share=0, flipped=0.25)
    with faulty(s3_settings, faults) as settings, open_store(s3_root, settings) as store:
        assert store.local_copy("a").read_bytes() == data
    assert faults.seen["flipped"]


def test_a_flipped_bit_of_an_upload_is_noticed(
    s3_settings: StorageSettings, s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_transfers, "UPLOAD_BYTES", 5 << 20)
    data = os.urandom(3 * s3_transfers.UPLOAD_BYTES)  # a multipart upload
    faults = Faults(1, share=0, flipped_uploads=0.4)
    with faulty(s3_settings, faults) as settings, open_store(s3_root, settings) as store:
        store.write_bytes("large", data)
        for number in range(10):
            store.write_bytes(f"{number}", DATA)
    assert faults.seen["flipped"] > 1
    with open_store(s3_root, s3_settings) as store:
        assert store.read_bytes("large") == data
        assert all(store.read_bytes(f"{number}") == DATA for number in range(10))


def test_a_server_that_never_answers_with_the_same_bytes(s3_settings: StorageSettings, s3_root: str) -> None:
    with open_store(s3_root, s3_settings) as store:
        store.write_bytes("a", DATA)
    with (
        faulty(s3_settings, Faults(1, share=0, flipped=1)) as settings,
        open_store(s3_root, settings) as store,
        pytest.raises(TransientStorageError, match="/a arrives with different bytes each time"),
    ):
        store.read_bytes("a")
