"""Which inputs may replace a finished output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_stack.folders import PROJECT
from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import check_input_of_output
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import UsageError
from partition_ops.storage import Store, open_store

MANIFEST = PROJECT / "tests/golden/old_output" / layout.MANIFEST
OWN = "OUT/ingest"  # the place of a graph that is ingested into the output


def finished(folder: Path, uri: str, *, ingested: bool = False) -> Store:
    """Return an output whose manifest names an input, and perhaps with a graph that was ingested."""
    document = json.loads(MANIFEST.read_text())
    document["input"]["uri"] = uri.replace("OUT", str(folder / "out"))
    output = open_store(str(folder / "out"))
    output.write_json(layout.MANIFEST, document)
    if ingested:
        output.write_bytes(f"{layout.INGEST}/{METADATA}", b"{}")
    return output


@pytest.mark.parametrize(
    ("known", "ingested", "source"),
    [
        ("/graphs/a", False, "/graphs/a"),
        ("/graphs/a", False, "file:///graphs/a/"),
        ("/graphs/a", False, "/graphs/b/../a"),
        ("s3://graphs/a", False, "s3://graphs/a/"),
        (OWN, True, OWN),
        ("/elsewhere/out/ingest", True, OWN),  # the output is a copy
    ],
)
def test_the_same_input_passes(known: str, ingested: bool, source: str, tmp_path: Path) -> None:
    output = finished(tmp_path, known, ingested=ingested)
    check_input_of_output(output, source.replace("OUT", output.uri))


@pytest.mark.parametrize(
    ("known", "ingested", "source", "expected"),
    [
        ("/graphs/a", False, "/graphs/b", "/graphs/a"),
        ("s3://graphs/a", False, "s3://graphs/b", "s3://graphs/a"),
        ("s3://graphs/a", False, "/graphs/a", "s3://graphs/a"),
        (OWN, True, "/graphs/a", "a graph that was ingested into it"),
        ("/graphs/a", False, OWN, "/graphs/a"),
        ("/graphs/ingest", False, OWN, "/graphs/ingest"),  # a folder of this name
    ],
)
def test_another_input_is_refused(
    known: str, ingested: bool, source: str, expected: str, tmp_path: Path
) -> None:
    output = finished(tmp_path, known, ingested=ingested)
    with pytest.raises(UsageError, match="made from another input") as caught:
        check_input_of_output(output, source.replace("OUT", output.uri), given="what the user gave")
    assert (caught.value.found, caught.value.expected) == ("what the user gave", expected)


@pytest.mark.parametrize("content", [None, b"", b"{}", b"{"])
def test_an_output_without_a_usable_manifest_takes_any_input(content: bytes | None, tmp_path: Path) -> None:
    output = finished(tmp_path, "/graphs/a")
    output.delete([layout.MANIFEST])
    if content is not None:
        output.write_bytes(layout.MANIFEST, content)
    check_input_of_output(output, "/graphs/b")
