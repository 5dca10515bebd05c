"""Errors that only a local folder has: symbolic links, permissions, files in place of folders."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.errors import InvalidInputError, StorageError, UsageError
from partition_ops.storage import Artifact, open_store
from partition_ops.storage.local_store import PARTIAL, check_folder
from tests.temporary import on_disk  # noqa: F401

NOBODY = 65534


@pytest.mark.parametrize(
    "uri", ["s3:bucket/x", "s3:/bucket/x", "S3:x", "s3:", "gs:b/x", "file:/x", "file://x"]
)
def test_a_misspelled_uri_is_not_a_path(uri: str) -> None:
    with pytest.raises(UsageError, match="URI"):
        open_store(uri)


@pytest.mark.parametrize("path", ["./s3:bucket/x", "a:b", "author:writes:paper", "s3/x"])
def test_a_path_may_have_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    open_store(path).write_bytes("key", b"x")
    assert (tmp_path / path / "key").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["link", "link/secret"])
def test_a_symbolic_link_cannot_lead_out(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    store = open_store(str(root))
    for use in (store.read_bytes, store.local_copy, store.stat, lambda key: store.write_bytes(key, b"")):
        with pytest.raises(InvalidInputError, match="symbolic link"):
            use(name)
    assert (tmp_path / "outside" / "secret").read_text() == "x"


def test_a_link_inside_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert open_store(str(tmp_path)).read_bytes("b") == b"x"


@pytest.mark.parametrize("prefix", ["../", "/etc/", "a/../../"])
def test_a_listing_cannot_leave_the_root(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(InvalidInputError):
        list(open_store(str(tmp_path)).list(prefix))


def test_a_file_where_a_folder_must_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    for use in (
        lambda: open_store(str(tmp_path)).write_bytes("a/b/c", b"1"),
        lambda: open_store(str(tmp_path)).compare_and_set("a/b", b"1", expected=None),
        lambda: check_folder(open_store(str(tmp_path / "a"))),
        lambda: check_folder(open_store(str(tmp_path / "a" / "b" / "c"))),
    ):
        with pytest.raises(UsageError, match=rf"cannot be a folder\. Found: a file, {tmp_path}/a\."):
            use()
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(UsageError, match="a broken symbolic link"):
        check_folder(open_store(str(tmp_path / "link")))
    check_folder(open_store(str(tmp_path / "new" / "folder")))


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """Yield a read-only folder; a test that runs as root drops its privileges meanwhile."""
    folder = Path(
        tempfile.mkdtemp()
    )  # every user can access its parents, unlike those of pytest's own folders
    (folder / "key").write_text("x")
    (folder / "key").chmod(0o600)
    folder.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize("key", ["new", "folder/new"])
def test_a_forbidden_write_names_the_user_and_the_permissions(forbidden: Path, key: str) -> None:
    store = open_store(str(forbidden))
    table = pa.table({"a": [1]})
    said = rf"{forbidden}/.* cannot be .*user .*\({os.geteuid()}\); {forbidden} belongs .*, mode dr-xr-xr-x"
    with pytest.raises(StorageError, match=said):
        store.write_bytes(key, b"1")
    with pytest.raises(StorageError, match=said), store.create(key) as new:
        pq.write_table(table, new.path)
    with pytest.raises(StorageError, match=said):
        store.compare_and_set(key, b"1", expected=None)


def test_a_forbidden_read_names_the_user(forbidden: Path) -> None:
    if os.geteuid() != NOBODY:
        (forbidden / "key").chmod(0)
    with pytest.raises(InvalidInputError, match=rf"key cannot be read.*user .*\({os.geteuid()}\)"):
        open_store(str(forbidden)).read_bytes("key")


def test_a_folder_cannot_be_read_or_removed_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    store = open_store(str(tmp_path))
    assert store.stat("a") is None
    with pytest.raises(InvalidInputError):
        store.read_bytes("a")
    with pytest.raises(StorageError, match="cannot be removed"):
        store.delete(["a"])


def test_an_error_inside_a_write_is_not_called_a_write_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="elsewhere"), open_store(str(tmp_path)).create("a"):
        Path("elsewhere").read_bytes()
    assert list(tmp_path.iterdir()) == []


def test_a_file_uri_may_be_quoted(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    store = open_store(f"file://{tmp_path}/a%20b")
    store.write_bytes("x", b"1")
    assert (tmp_path / "a b" / "x").read_bytes() == b"1"


def test_partial_files_of_killed_processes_are_removed_from_some_folders(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.write_bytes("a/b/c", b"x")
    for folder in ("a", "a/b", "others"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{PARTIAL}{'1f' * 8}").write_bytes(b"half")
    store.delete_unfinished(["a", "missing"])
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"a/b/c", f"others/{PARTIAL}{'1f' * 8}"}


def test_a_shared_object_takes_no_space(tmp_path: Path) -> None:
    """It is a hard link, and stays if the other one is removed or replaced."""
    store = open_store(str(tmp_path))
    first = store.write_bytes("a/x", b"12345")
    shared = store.share(first, "b/y")
    assert shared == Artifact("b/y", 5, first.sha256)
    assert (tmp_path / "a/x").samefile(tmp_path / "b/y")
    store.write_bytes("a/x", b"new")
    assert store.read_bytes("b/y") == b"12345"
    assert not [*tmp_path.rglob(f"{PARTIAL}*")]
