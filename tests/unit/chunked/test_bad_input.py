"""Each test makes one change to a valid graph: the message names it, and no output looks finished."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts import layout
from partition_ops.chunked.feature_formats import read_numpy
from partition_ops.cli import main
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from tests.graphs import Layout, library

CSV_EDGES = "edges/0-0.csv"  # author:writes:paper, 20 authors, 40 papers


def edit(folder: Path, key: str, change: Callable[[list[str]], Any]) -> None:
    path = folder / key
    lines = path.read_text().splitlines()
    change(lines)
    path.write_text("\n".join(lines) + "\n")


def metadata(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "metadata.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def line(index: int, text: str) -> Callable[[Path], None]:
    return lambda folder: edit(folder, CSV_EDGES, lambda lines: lines.__setitem__(index, text))


def replace_npy(key: str, array: np.ndarray) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / key, array)


def parquet_edges(**columns: Any) -> Callable[[Path], None]:
    """Replace the file of paper:cites:paper by a Parquet file with these columns."""

    def change(folder: Path) -> None:
        pq.write_table(pa.table(columns), folder / "edges/bad.parquet")
        spec = {"format": {"name": "parquet"}, "data": ["edges/bad.parquet"]}
        metadata(folder, lambda d: d["edges"].update({"paper:cites:paper": spec}))

    return change


def cut(key: str, size: int) -> Callable[[Path], None]:
    return lambda folder: (folder / key).write_bytes((folder / key).read_bytes()[:size]) and None


def csv_feature(index: int, text: str) -> Callable[[Path], None]:
    """Write a CSV feature of authors with two numbers per line, except for one line."""

    def change(folder: Path) -> None:
        rows = [f"{row},{row / 2}" for row in range(20)]
        rows[index] = text
        (folder / "bad.csv").write_text("\n".join(rows))
        spec = {"format": {"name": "csv", "delimiter": ","}, "data": ["bad.csv"]}
        metadata(folder, lambda d: d["node_data"]["author"].update(bad=spec))

    return change


FEAT, LABEL = "node_data/0-0.npy", "node_data/1-0.npy"
CHANGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "an ID beyond the range": (
        line(3, "5,40"),
        r"out_of_range_ids.*'author:writes:paper'.*row 3 of .*0-0\.csv.*tion 40 of 'paper' \(0 to 39\)",
    ),
    "an ID below zero": (line(0, "-1,2"), r"row 0 of .*source -1 of 'author' \(0 to 19\)"),
    "a word for an ID": (
        line(7, "seven,1"),
        r"non_integer_rows.*'seven,1' in row 7 \(line 8\) of .*0-0\.csv",
    ),
    "a fraction for an ID": (line(7, "1.5,1"), r"non_integer_rows.*'1\.5,1' in row 7 \(line 8\)"),
    "no ID": (line(2, "4,"), r"null_ids.*row 2 of .*destination missing"),
    "three columns in a row": (line(4, "1,2,3"), r"wrong_column_rows.*'1,2,3' in row 4 \(line 5\)"),
    "one column in a row": (line(4, "1"), r"wrong_column_rows.*'1' in row 4 \(line 5\)"),
    "three columns in all rows": (
        lambda f: edit(f, CSV_EDGES, lambda ls: ls.__setitem__(slice(None), [f"{x},0" for x in ls])),
        r"wrong_column_rows.*row 0 \(line 1\).*and \d+ more",
    ),
    "a blank line for a row": (line(5, ""), r"wrong_count_files.*0-0\.csv.*line 6 is blank"),
    "a blank line at the beginning": (
        lambda f: edit(f, CSV_EDGES, lambda ls: ls.insert(0, "")),
        r"unreadable_files.*0-0\.csv.*line 1 is blank.*Remove the line",
    ),
    "an ID beyond 64 bits": (
        line(1, f"{2**63},1"),
        r"non_integer_rows.*'9223372036854775808,1' in row 1 \(line 2\)",
    ),
    "one edge too many": (
        lambda f: edit(f, CSV_EDGES, lambda ls: ls.append("0,0")),
        r"wrong_count_files.*\d+ rows in .*0-0\.csv.*says \d+ \(num_edges_per_chunk\)",
    ),
    "one edge too few": (lambda f: edit(f, CSV_EDGES, lambda ls: ls.pop()), r"wrong_count_files.*0-0\.csv"),
    "a file that is missing": (lambda f: (f / CSV_EDGES).unlink(), rf"missing_files.*no file .*{CSV_EDGES}"),
    "a file that is a folder": (
        lambda f: ((f / CSV_EDGES).unlink(), (f / CSV_EDGES).mkdir()),
        rf"{CSV_EDGES}",
    ),
    "bytes that are no text": (lambda f: (f / CSV_EDGES).write_bytes(b"\xff\xfe\x00\x01" * 9), CSV_EDGES),
    "an empty file": (lambda f: (f / CSV_EDGES).write_bytes(b""), r"wrong_count_files.*0 rows in .*0-0\.csv"),
    "a duplicate edge": (
        lambda f: edit(f, CSV_EDGES, lambda ls: ls.__setitem__(1, ls[0])),
        r"1 duplicate_edges of 'author:writes:paper': edge 1, .* in row 1 of .*--on-defect duplicate_ed",
    ),
    "floats for IDs in Parquet": (
        parquet_edges(src=[0.0], dst=[1.0]),
        r"unreadable_files.*src: double.*two integer columns",
    ),
    "three columns in Parquet": (parquet_edges(src=[0], dst=[1], w=[2]), r"w: int64.*two integer columns"),
    "nulls in Parquet": (
        parquet_edges(src=[0, None], dst=[1, 2]),
        r"null_ids.*edge 1 in row 1 of .*bad\.parquet, source missing",
    ),
    "unsigned IDs beyond 63 bits": (
        parquet_edges(src=pa.array([2**63], pa.uint64()), dst=pa.array([1], pa.uint64())),
        r"out_of_range_ids.*source 9223372036854775808 of 'paper'",
    ),
    "not Parquet": (
        lambda f: (parquet_edges(src=[0], dst=[1])(f), (f / "edges/bad.parquet").write_text("no")),
        r"bad\.parquet.*cannot be read as Parquet",
    ),
    "a feature with a row too few": (
        replace_npy(LABEL, np.zeros(39)),
        r"wrong_count_files.*39 rows in .*'label' of 'paper'.*says 40",
    ),
    "a feature of objects": (
        lambda f: np.save(f / LABEL, np.array([{}] * 40), allow_pickle=True),
        r"cannot be read as \.npy",
    ),
    "a feature of text": (replace_npy(LABEL, np.array(["x"] * 40)), r"unsupported_dtype.*'paper/label'.*<U1"),
    "a feature of complex numbers": (
        replace_npy(LABEL, np.zeros(40, complex)),
        r"unsupported_dtype.*complex128",
    ),
    "a feature of dates": (replace_npy(LABEL, np.zeros(40, "M8[s]")), r"unsupported_dtype.*datetime64"),
    "a feature without rows": (replace_npy(LABEL, np.array(3)), r"no rows"),
    "a feature that is cut short": (cut(FEAT, 300), rf"{FEAT}.*cannot be read as \.npy"),
    "not a feature file": (lambda f: (f / FEAT).write_text("PK"), rf"{FEAT}.*cannot be read"),
    "a word in a feature": (
        csv_feature(7, "1,abc"),
        r"unreadable_files.*'1,abc' in line 8.*2 numbers per line",
    ),
    "a value missing in a feature": (csv_feature(7, "1,"), r"unreadable_files.*'1,' in line 8.*2 numbers"),
    "a value too many in a feature": (csv_feature(7, "1,2,3"), r"unreadable_files.*'1,2,3' in line 8"),
    "a blank line in a feature": (csv_feature(7, ""), r"wrong_count_files.*19 rows in .*line 8 is blank"),
    "a feature that is missing": (lambda f: (f / FEAT).unlink(), rf"missing_files.*{FEAT}"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_defect_is_named_and_nothing_is_published(tmp_path: Path, name: str) -> None:
    change, words = CHANGES[name]
    graph = library(layout=Layout("csv")).write(tmp_path / "graph")
    change(graph)
    with (
        open_store(str(graph)) as source,
        open_store(str(tmp_path / "out")) as destination,
        pytest.raises(InvalidInputError, match=rf"(?s){words}") as caught,
    ):
        run_job(RunConfig(num_parts=2, engine="random"), source, destination)
    assert caught.value.exit_code == 3
    assert not (tmp_path / "out" / layout.MANIFEST).exists()
    assert not (tmp_path / "out" / layout.PARTITIONS).exists()


def npz(path: Path) -> None:
    with path.open("wb") as stream:
        np.savez(stream, a=np.arange(3))


def changed(old: bytes, new: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda path: path.write_bytes(b""), "an empty file"),
        (lambda path: path.write_bytes(path.read_bytes()[:20]), "whose header is damaged or truncated"),
        (lambda path: path.write_bytes(path.read_bytes()[:-5]), "155 bytes, but 160 according to its header"),
        (lambda path: path.write_text("1,2,3"), "begins with b'1,2,3'"),
        (changed(b"descr", b"dexxr"), "header is damaged"),
        (changed(b"<i8", b"<q9"), "header is damaged"),
        (changed(b"(4,)", b"(-4,)"), "the shape (-4,)"),
        (npz, "an archive, as numpy.savez writes it"),
        (lambda path: np.save(path, np.array([{}]), allow_pickle=True), "Python objects"),
    ],
)
def test_the_message_says_why_a_file_is_not_an_array(
    tmp_path: Path, change: Callable[[Path], Any], found: str
) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(4))
    change(path)
    with pytest.raises(InvalidInputError, match=r"a\.npy cannot be read as \.npy") as caught:
        read_numpy(path, "a.npy")
    assert found in str(caught.value.found)
    assert caught.value.expected and caught.value.remedy


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "nothing"),
        (b'{\n "a": 1,\n b}', "in line 3, column 2, near '"),
        ("{}".encode("utf-16")[:-1], "not UTF-16-LE text"),
        (b'{"a": "\xff"}', "not UTF-8 text, at byte 7"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
    ],
)
def test_the_message_says_why_metadata_is_not_json(
    tmp_path: Path, data: bytes, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metadata.json").write_bytes(data)
    assert main(["validate", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert found in said
    assert "expected: a JSON document in UTF-8\n  Repair or replace the file.\n" in said  # no report of that


def test_chunks_of_different_dtypes_are_named(tmp_path: Path) -> None:
    graph = library().write(tmp_path / "graph")
    np.save(graph / "node_data/extra.npy", np.zeros((20, 8), np.float64))
    np.save(graph / FEAT, np.zeros((20, 8), np.float32))
    metadata(graph, lambda d: d["node_data"]["paper"]["feat"].update(data=[FEAT, "node_data/extra.npy"]))
    with pytest.raises(InvalidInputError, match=r"layout_mismatches.*extra\.npy.*chunk 1.*float64.*float32"):
        run_job(
            RunConfig(num_parts=2, engine="random"), open_store(str(graph)), open_store(str(tmp_path / "out"))
        )


def test_a_self_loop_is_named_and_a_warning_lets_it_pass(tmp_path: Path) -> None:
    graph = library(layout=Layout("csv")).write(tmp_path / "graph")
    edit(graph, "edges/1-0.csv", lambda lines: lines.__setitem__(4, "7,7"))
    source, destination = open_store(str(graph)), open_store(str(tmp_path / "out"))
    with pytest.raises(
        InvalidInputError, match=r"1 self_loop_edges of 'paper:cites:paper': edge 4 in row 4 .*source 7 "
    ):
        run_job(RunConfig(num_parts=2, engine="random"), source, destination)
    results = run_job(RunConfig(num_parts=2, engine="random", on_defect="warn"), source, destination)
    assert results[0].counters["defects"]["self_loop_edges paper:cites:paper"] == 1
    assert destination.exists(layout.MANIFEST)


def test_a_failed_run_takes_the_earlier_manifest_away(tmp_path: Path) -> None:
    """Otherwise the output would look finished, although its input has changed."""
    graph = library(layout=Layout("csv")).write(tmp_path / "graph")
    source, destination = open_store(str(graph)), open_store(str(tmp_path / "out"))
    run_job(RunConfig(num_parts=2, engine="random"), source, destination)
    assert destination.exists(layout.MANIFEST)
    line(3, "5,40")(graph)
    with pytest.raises(InvalidInputError):
        run_job(RunConfig(num_parts=2, engine="random"), source, destination)
    assert not destination.exists(layout.MANIFEST)
