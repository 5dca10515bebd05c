"""The example that turns a Python environment into a graph, on environments small enough to know by heart."""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from examples.python_environment.__main__ import main
from partition_ops.chunked.metadata import FileSet, GraphMetadata, load_metadata
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from partition_ops.verification import verify_output

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
ALPHA = {
    "alpha/__init__.py": """
        from .core import Base, helper as help_me
        from .core import *
        VERSION = 1
    """,
    "alpha/core.py": '''
        """Core of alpha."""
        from . import tools
        import alpha.tools as other_name

        def helper(x, /, y: int = 1, *args, key=None, **rest):
            """Help."""
            tools.twice(x)
            tools.twice(y)
            other_name.once()
            len(args)
            x.unknown()
            return x()()

        async def star_only():
            def inner():
                return helper(1)
            return inner()

        class Base:
            def __init__(self):
                self.run()

            def run(self):
                return helper(1)

            @classmethod
            def make(cls):
                return cls()

        def _hidden():
            _hidden()
    ''',
    "alpha/tools.py": """
        import os

        def twice(x):
            return os.fspath(x)

        def once():
            pass

        def once():
            twice(2)
    """,
    "alpha/broken.py": "def broken(:\n",
    "alpha/data/not-a-module.py": "x = 1\n",
}
BETA = {
    "beta.py": """
        import alpha
        from alpha import Base as B, help_me, missing, core
        from alpha import *

        class Child(B, alpha.core.Base, dict):
            def run(self):
                def later(helper):
                    helper()
                    return self.run()
                super().run()
                self.make()
                help_me(2)
                return later

        def build(B):
            return B()

        def both():
            Child().run()
            return B(), alpha.Base(), [star_only() for _ in range(3)]

        both()
    """,
}
GAMMA = {
    "space/gamma/one.py": "import space.gamma.two\n\ndef f():\n    return space.gamma.two.g()\n",
    "space/gamma/two.py": "def g():\n    return (lambda g: g())(1)\n",
}


def install(folder: Path, name: str, files: dict[str, str], requires: tuple[str, ...] = ()) -> None:
    """Write the files that an installer leaves."""
    info = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.2rc3", "Provides-Extra: more"]
    (info / "METADATA").write_text(
        "\n".join([*lines, *(f"Requires-Dist: {one}" for one in requires), "", ""])
    )
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in [*files, "gone.py", "../../bin/x.py"]))
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(_dedented(text))


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("        ") for line in text.splitlines()) + "\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site-packages"
    install(folder, "Alpha", ALPHA, ("beta; extra == 'more'", "alpha[more]", "absent", "not valid !!"))
    install(folder, "beta", BETA, ("alpha>=1", "gamma_ray; sys_platform == 'nowhere'"))
    install(folder, "gamma-ray", GAMMA)
    return folder


def build(output: Path, *arguments: object) -> GraphMetadata:
    if main([str(output), *map(str, arguments)]) != 0:
        raise AssertionError("no graph was written")
    return load_metadata(open_store(str(output)))


def names(output: Path, node_type: str) -> list[str]:
    return pq.read_table(output / "names" / f"{node_type}.parquet")["name"].to_pylist()


def rows_of(output: Path, data: FileSet) -> list[np.ndarray]:
    """By chunk, read without the library's own readers."""
    return [_read(output / file, data) for file in data.files]


def _read(path: Path, data: FileSet) -> np.ndarray:
    if data.format.name == "numpy":
        return np.load(path, allow_pickle=False)
    if data.format.name == "csv":
        lines = path.read_text().splitlines()[1 if data.format.header else 0 :]
        rows = [[int(value) for value in line.split(data.format.delimiter)] for line in lines]
        return np.array(rows, np.int64).reshape(len(rows), -1)
    columns = pq.read_table(path).columns
    return (
        np.array([column.to_pylist() for column in columns]).T
        if len(columns) > 1
        else np.array(columns[0].to_pylist())
    )


def edges(output: Path, edge_type: str) -> set[tuple[str, str]]:
    metadata = load_metadata(open_store(str(output)))
    src, _, dst = edge_type.split(":")
    src_names, dst_names = names(output, src), names(output, dst)
    pairs = np.concatenate(
        [part.reshape(-1, 2) for part in rows_of(output, metadata.edges[metadata.edge_type_id(edge_type)])]
    ).astype(np.int64)
    return {(src_names[a], dst_names[b]) for a, b in pairs}


def feature(output: Path, key: str) -> np.ndarray:
    metadata = load_metadata(open_store(str(output)))
    found = next(f for f in (*metadata.node_features, *metadata.edge_features) if f.key == key)
    return np.concatenate(rows_of(output, found.data))


def same_files(first: Path, second: Path) -> bool:
    files = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    others = sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    return files == others and not any(filecmp.cmpfiles(first, second, files, shallow=False)[1:])


def test_nodes(site: Path, tmp_path: Path) -> None:
    build(tmp_path / "out", "--site-packages", site, "--workers", 1)
    assert names(tmp_path / "out", "distribution") == ["alpha", "beta", "gamma-ray"]
    assert names(tmp_path / "out", "module") == [
        "alpha", "alpha.core", "alpha.tools", "beta", "space.gamma.one", "space.gamma.two"
    ]  # fmt: skip
    assert names(tmp_path / "out", "class") == ["alpha.core:Base", "beta:Child"]
    assert set(names(tmp_path / "out", "function")) == {
        "alpha.core:helper", "alpha.core:star_only", "alpha.core:star_only.<locals>.inner",
        "alpha.core:Base.__init__", "alpha.core:Base.run", "alpha.core:Base.make", "alpha.core:_hidden",
        "alpha.tools:twice", "alpha.tools:once", "alpha.tools:once#2",
        "beta:Child.run", "beta:Child.run.<locals>.later", "beta:build", "beta:both",
        "space.gamma.one:f", "space.gamma.two:g",
    }  # fmt: skip


def test_edges_between_distributions_and_modules(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, "--site-packages", site, "--workers", 1)
    assert edges(out, "distribution:requires:distribution") == {("alpha", "beta"), ("beta", "alpha")}
    assert feature(out, "distribution:requires:distribution/only_extra").tolist() == [True, False]
    assert edges(out, "distribution:contains:module") == {
        ("alpha", "alpha"), ("alpha", "alpha.core"), ("alpha", "alpha.tools"), ("beta", "beta"),
        ("gamma-ray", "space.gamma.one"), ("gamma-ray", "space.gamma.two"),
    }  # fmt: skip
    assert edges(out, "module:imports:module") == {
        ("alpha", "alpha.core"), ("alpha.core", "alpha.tools"), ("beta", "alpha"), ("beta", "alpha.core"),
        ("space.gamma.one", "space.gamma.two"),
    }  # fmt: skip
    assert feature(out, "module:imports:module/num_names").tolist() == [3, 2, 5, 1, 1]


def test_definitions_and_inheritance(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, "--site-packages", site, "--workers", 1)
    assert edges(out, "module:defines_class:class") == {
        ("alpha.core", "alpha.core:Base"),
        ("beta", "beta:Child"),
    }
    assert edges(out, "class:inherits:class") == {("beta:Child", "alpha.core:Base")}
    assert edges(out, "class:has_method:function") == {
        *(("alpha.core:Base", f"alpha.core:Base.{name}") for name in ("__init__", "run", "make")),
        ("beta:Child", "beta:Child.run"),
    }
    enclosed = edges(out, "function:encloses:function")
    assert enclosed == {
        ("alpha.core:star_only", "alpha.core:star_only.<locals>.inner"),
        ("beta:Child.run", "beta:Child.run.<locals>.later"),
    }
    defined = edges(out, "module:defines_function:function")
    ends = [end for _, end in (*enclosed, *defined, *edges(out, "class:has_method:function"))]
    assert sorted(ends) == sorted(names(out, "function"))  # each has one place
    assert all(end.startswith(f"{module}:") for module, end in defined)


def test_calls(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, "--site-packages", site, "--workers", 1)
    assert edges(out, "function:calls:function") == {
        ("alpha.core:helper", "alpha.tools:twice"),
        ("alpha.core:helper", "alpha.tools:once#2"),  # the last definition is the one that counts
        ("alpha.tools:once#2", "alpha.tools:twice"),
        ("alpha.core:star_only", "alpha.core:star_only.<locals>.inner"),
        ("alpha.core:star_only.<locals>.inner", "alpha.core:helper"),
        ("alpha.core:Base.__init__", "alpha.core:Base.run"),
        ("alpha.core:Base.run", "alpha.core:helper"),
        ("beta:Child.run", "alpha.core:Base.run"),  # super()
        ("beta:Child.run", "alpha.core:Base.make"),  # inherited
        ("beta:Child.run", "alpha.core:helper"),  # re-exported under another name
        ("beta:Child.run.<locals>.later", "beta:Child.run"),  # self of the method around; not the parameter
        ("beta:both", "alpha.core:star_only"),  # through two star imports
        ("space.gamma.one:f", "space.gamma.two:g"),  # in a package without a file
    }
    assert edges(out, "function:instantiates:class") == {
        ("alpha.core:Base.make", "alpha.core:Base"),
        ("beta:both", "beta:Child"),
        ("beta:both", "alpha.core:Base"),
    }
    assert sorted(feature(out, "function:instantiates:class/num_sites").tolist()) == [1, 1, 2]


def test_every_call_site_is_accounted_for(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, "--site-packages", site, "--workers", 1)
    sites = dict(zip(names(out, "function"), feature(out, "function/call_sites").tolist(), strict=True))
    assert sites["alpha.core:helper"] == [3, 1, 0, 3]  # resolved, built in, outside, not resolvable
    assert sites["alpha.tools:twice"] == [0, 0, 1, 0]
    assert sites["beta:build"] == [0, 0, 0, 1]
    recursive = dict(zip(names(out, "function"), feature(out, "function/is_recursive").tolist(), strict=True))
    assert [name for name, calls_itself in recursive.items() if calls_itself] == ["alpha.core:_hidden"]
    on_edges = feature(out, "function:calls:function/num_sites").sum()
    on_edges += feature(out, "function:instantiates:class/num_sites").sum()
    assert on_edges + 1 == sum(found[0] for found in sites.values())  # one recursive call


def test_features_say_what_the_source_says(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, "--site-packages", site, "--workers", 1)
    helper = names(out, "function").index("alpha.core:helper")
    signature = feature(out, "function/signature")
    assert (signature.dtype, signature.shape[1:]) == (np.int8, (5, 3))
    assert signature[helper].tolist() == [[1, 0, 0], [1, 1, 1], [1, 0, 0], [1, 0, 1], [1, 0, 0]]
    assert feature(out, "function/lines")[helper] == 8
    assert feature(out, "function/has_docstring").sum() == 1
    assert feature(out, "function/is_async").tolist().index(True) == names(out, "function").index(
        "alpha.core:star_only"
    )
    assert feature(out, "module/has_docstring").tolist() == [False, True, False, False, False, False]
    assert feature(out, "module/is_package").tolist() == [True, False, False, False, False, False]
    assert feature(out, "distribution/version").tolist() == [[1, 2, 3]] * 3


def test_labels_and_split(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(out, "--site-packages", site, "--workers", 1)
    classes = pq.read_table(out / "names" / "label.parquet")["distribution"].to_pylist()
    assert classes == ["alpha", "beta", "gamma-ray"]
    assert feature(out, "module/label").tolist() == [0, 0, 0, 1, 2, 2]
    for node_type in ("module", "function"):
        masks = [feature(out, f"{node_type}/{name}_mask") for name in ("train", "val", "test")]
        assert (np.sum(masks, axis=0) == 1).all()


@pytest.mark.parametrize("chunks", [1, 3])
def test_every_file_has_the_rows_that_the_metadata_says(site: Path, tmp_path: Path, chunks: int) -> None:
    out = tmp_path / "out"
    metadata = build(out, "--site-packages", site, "--workers", 1, "--chunks", chunks)
    node_chunks = dict(zip(metadata.node_types, metadata.num_nodes_per_chunk, strict=True))
    edge_chunks = dict(zip(map(str, metadata.edge_types), metadata.num_edges_per_chunk, strict=True))
    for found in (*metadata.node_features, *metadata.edge_features):
        expected = (node_chunks | edge_chunks)[found.type_name]
        assert tuple(len(part) for part in rows_of(out, found.data)) == expected, found.key
    for edge_type, data in zip(metadata.edge_types, metadata.edges, strict=True):
        parts = rows_of(out, data)
        pairs = np.concatenate([part.reshape(-1, 2) for part in parts])
        assert tuple(len(part) for part in parts) == edge_chunks[str(edge_type)]
        assert len(np.unique(pairs, axis=0)) == len(pairs)
        assert edge_type.src != edge_type.dst or (pairs[:, 0] != pairs[:, 1]).all()
    for node_type, count in zip(metadata.node_types, metadata.num_nodes, strict=True):
        assert len(set(names(out, node_type))) == count


def test_the_same_environment_gives_the_same_bytes(site: Path, tmp_path: Path) -> None:
    build(tmp_path / "one", "--site-packages", site, "--workers", 1)
    for seed in "12":
        subprocess.run(
            [sys.executable, "-m", "examples.python_environment", str(tmp_path / f"two-{seed}"),
             "--site-packages", str(site), "--workers", "2"],
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        assert same_files(tmp_path / "one", tmp_path / f"two-{seed}")


def test_nothing_written_depends_on_where_the_environment_is(site: Path, tmp_path: Path) -> None:
    build(tmp_path / "one", "--site-packages", site, "--workers", 1)
    site.rename(tmp_path / "moved")
    build(tmp_path / "two", "--site-packages", tmp_path / "moved", "--workers", 1)
    assert same_files(tmp_path / "one", tmp_path / "two")


def test_files_that_do_not_parse_are_counted(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path / "out", "--site-packages", site, "--workers", 1)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "cannot be parsed" in line]
    assert line.split()[-1] == "1"


def test_a_grown_environment_keeps_the_ids_of_its_nodes(site: Path, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    build(before, "--site-packages", site, "--workers", 1)
    install(site, "aaa-first", {"aaa.py": "import beta\n\ndef new():\n    beta.both()\n"}, ("beta",))
    (site / "alpha" / "tools.py").write_text("def twice(x):\n    pass\n")
    build(after, "--site-packages", site, "--workers", 1, "--previous", before)
    for node_type in ("distribution", "module", "class", "function"):
        assert names(after, node_type)[: len(names(before, node_type))] == names(before, node_type)
    assert names(after, "function")[-1] == "aaa:new"
    assert ("aaa:new", "beta:both") in edges(after, "function:calls:function")
    gone = names(after, "function").index("alpha.tools:once")
    assert feature(after, "function/lines")[gone] == 0
    assert not any(feature(after, f"function/{name}_mask")[gone] for name in ("train", "val", "test"))
    assert all("alpha.tools:once" not in pair for pair in edges(after, "module:defines_function:function"))
    assert feature(after, "module/label").tolist() == [0, 0, 0, 1, 2, 2, 16]
    build(tmp_path / "again", "--site-packages", site, "--workers", 1, "--previous", after)
    assert same_files(after, tmp_path / "again")


def test_partitions_follow_an_environment_that_has_grown(site: Path, tmp_path: Path) -> None:
    """Values learned about a function follow its name, whatever was installed since."""
    graphs = [tmp_path / "before", tmp_path / "after"]
    outputs = [open_store(str(tmp_path / name)) for name in ("out-before", "out-after")]
    build(graphs[0], "--site-packages", site, "--workers", 1)
    install(site, "aaa-first", {"aaa.py": "import beta\n\ndef new():\n    beta.both()\n"}, ("beta",))
    build(graphs[1], "--site-packages", site, "--workers", 1, "--previous", graphs[0])
    config = RunConfig(num_parts=2, on_defect="warn")
    run_job(config, open_store(str(graphs[0])), outputs[0])
    run_job(config, open_store(str(graphs[1])), outputs[1], previous=outputs[0])
    assert outputs[1].read_json("assignment/migration.json")["node_types"]["function"]["new"] == 1
    report = verify_output(open_store(str(graphs[1])), outputs[1])
    assert report.passed, report.summary()
    by_new_id = []
    for graph, output in zip(graphs, outputs, strict=True):
        ids = pq.ParquetFile(output.local_copy("idmap/nodes/function.parquet")).read()["orig_id"]
        by_new_id.append([names(graph, "function")[node] for node in ids.to_pylist()])
    carried = pq.ParquetFile(outputs[1].local_copy("idmap/carry_over/nodes/function.parquet")).read()
    pairs = zip(*(carried[name].to_pylist() for name in ("old_type_new_id", "type_new_id")), strict=True)
    assert all(by_new_id[0][old] == by_new_id[1][new] for old, new in pairs)
    assert carried.num_rows == len(by_new_id[0]) == len(by_new_id[1]) - 1


def test_a_run_replaces_the_graph_before_but_nothing_else(site: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    build(out, "--site-packages", site, "--workers", 1, "--chunks", 5)
    build(out, "--site-packages", site, "--workers", 1, "--chunks", 1)
    assert len(list((out / "node_data" / "function").glob("feat-*"))) == 1
    other.mkdir()
    (other / "precious.txt").write_text("mine")
    assert main([str(other), "--site-packages", str(site)]) == 2
    assert (other / "precious.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out", "site-packages"]


def test_code_that_nests_and_inherits_in_circles(tmp_path: Path) -> None:
    source = "from loop import C as D, missing\nfrom loop import *\n\nclass A(B): pass\nclass B(A): pass\n"
    source += "class C(D):\n    def m(self): self.n(); self(); unknown(); missing()\n"
    source += "value = " + "+".join(["1"] * 900) + "\n" + "match value:\n    case [*rest] | {**rest}: pass\n"
    install(tmp_path / "site", "loop", {"loop.py": source})
    build(tmp_path / "out", "--site-packages", tmp_path / "site", "--workers", 1)
    assert feature(tmp_path / "out", "function/call_sites").tolist() == [[0, 0, 0, 4]]
    assert edges(tmp_path / "out", "class:inherits:class") == {("loop:A", "loop:B"), ("loop:B", "loop:A")}


def test_an_environment_without_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "site").mkdir()
    assert main([str(tmp_path / "out"), "--site-packages", str(tmp_path / "site")]) == 1
    assert "--site-packages" in capsys.readouterr().err
    install(tmp_path / "site", "bad", {"bad.py": "def"})
    assert main([str(tmp_path / "out"), "--site-packages", str(tmp_path / "site")]) == 1
    assert main([str(tmp_path / "out"), "--site-packages", str(tmp_path / "nowhere")]) == 2
    assert not (tmp_path / "out").exists()


def test_packages_that_are_not_installed(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ("alpha", "delta", "gamma.ray", "epsilon")
    assert main([str(tmp_path / "out"), "--site-packages", str(site), "--packages", *wanted]) == 2
    assert f"Not installed in {site}: delta, epsilon." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_part_of_the_environment_that_runs_this(tmp_path: Path) -> None:
    """Real code: jsonschema and what it requires."""
    wanted = ("jsonschema", "referencing", "attrs", "RPDS_py", "tqdm", "packaging")
    metadata = build(tmp_path / "out", "--packages", *wanted, "--workers", 2)
    assert metadata.num_nodes[0] == len(wanted)
    assert min(metadata.num_nodes) >= 5 and min(metadata.num_edges) > 0
    calls = edges(tmp_path / "out", "function:calls:function")
    assert ("jsonschema.validators:validate", "jsonschema.validators:validator_for") in calls
    assert ("jsonschema._keywords:if_", "jsonschema.validators:create") not in calls


MANY_FILES = """
import sys
from pathlib import Path
from examples.python_environment.discover import SourceFile
from examples.python_environment.parse import parse_files

if __name__ == "__main__":
    path = Path(sys.argv[1])
    for _ in parse_files([SourceFile("many", path, False)] * 100_000, workers=2):
        print("parsed", flush=True)
"""


def test_workers_do_not_outlive_a_process_that_is_killed(tmp_path: Path) -> None:
    script, source = tmp_path / "script.py", tmp_path / "many.py"
    script.write_text(MANY_FILES)
    source.write_text("VALUE = 1\n" * 1000)
    process = subprocess.Popen(
        [sys.executable, str(script), str(source)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"parsed\n"
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.kill()
    process.wait()
    assert not psutil.wait_procs(workers, timeout=60)[1]
