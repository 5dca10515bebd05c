"""``pm-dglpart`` as a task: partition the text in ``prepare/`` of a run under mpirun."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.errors import EngineError, UsageError
from partition_ops.formats.parmetis.text_files import edges_file, nodes_file, read_text_stats, stats_file
from partition_ops.stages.partition.mpi.mpirun import run_program
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.mpi.parmetis_library import check_installed
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.storage import Artifact, Store
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import sha256_of
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder

TASK = "pm-dglpart"


def partition_text(
    config: PartitionConfig,
    graph_name: str,
    destination: Store,
    *,
    use_program: bool = False,
    progress: Progress | None = None,
) -> StageResult:
    """Partition ``prepare/<graph>_{nodes,edges,stats}.txt`` into ``prepare/p<i>-<graph>_….txt``.

    The ranks run in that folder, or, if the run is on S3, in a temporary folder of this machine. With
    ``use_program``, they run the ``pm_dglpart`` of the ParMETIS project that is on the PATH.

    Returns:
        Numbers of partitions, nodes and edges.

    Raises:
        UsageError: The number of partitions is not a multiple of that of the ranks.
        InvalidInputError: The text has not been written, or has a wrong row.
        EngineError: MPI, ParMETIS or the program is missing, or failed.

    Peak memory: that of the ranks; see `dglpart`.
    """
    ranks = config.own(MpiOptions).number
    rest = config.num_parts % ranks
    if rest:
        raise UsageError(
            "Every rank of pm-dglpart writes the same number of partitions",
            found=f"--num-parts {config.num_parts} and --mpi-ranks {ranks}",
            expected="a number of partitions that is a multiple of that of the ranks",
        )
    text = destination.child(layout.PARMETIS_TEXT)

    def work(writer: ArtifactWriter) -> Counters:
        nodes, edges, _ = read_text_stats(text, graph_name)
        with (progress or NoProgress()).step("Partitioning the text", 1, "graphs") as advance:
            if not use_program:
                check_installed(config.own(MpiOptions).library)
            command = _command(config, graph_name, use_program=use_program)
            _check_complete(_partition(config, command, graph_name, text, writer), config.num_parts)
            advance(1)
        return {"num_parts": config.num_parts, "nodes": nodes, "edges": edges}

    options = {
        "num_parts": config.num_parts,
        "tolerance": config.tolerance,
        "seed": config.seed,
        "ranks": ranks,
    }
    if use_program:
        options["use_program"] = True
    after, outputs = [layout.PREPARE_TEXT_TASK], [f"{layout.PARMETIS_TEXT}/p"]
    return Task(TASK, destination, work, options=options, after=after, outputs=outputs).run()


def _partition(
    config: PartitionConfig, command: list[str], name: str, text: Store, writer: ArtifactWriter
) -> list[str]:
    """Run the ranks, and return the names of the files that they have written."""
    output = re.compile(rf"p[0-9]+-{name}_(nodes|edges|stats)\.txt")
    text.delete([entry.key for entry in text.list("p") if output.fullmatch(entry.key)])
    with temporary_folder() as scratch:
        folder = text.root if isinstance(text, LocalStore) else Path(scratch)
        for key in (kind(name) for kind in (nodes_file, edges_file, stats_file)):
            if folder == Path(scratch):
                (folder / key).symlink_to(text.local_copy(key))
        run_program(command, config.own(MpiOptions), folder)
        paths = sorted(path for path in folder.iterdir() if output.fullmatch(path.name))
        for path in paths:
            key = f"{layout.PARMETIS_TEXT}/{path.name}"
            if folder == Path(scratch):
                with writer.create(key) as new:
                    shutil.move(path, new.path)
            else:
                writer.wrote(Artifact(key, path.stat().st_size, sha256_of(path)))
        return [path.name for path in paths]


def _check_complete(names: list[str], num_parts: int) -> None:
    """Raise an error if partitions lack files: the program of the ParMETIS project can fail with status 0."""
    numbered = re.compile(r"p(\d+)-.*_(nodes|edges)\.txt")
    found = {(int(match[1]), match[2]) for name in names if (match := numbered.fullmatch(name))}
    wanted = [(part, kind) for part in range(num_parts) for kind in ("nodes", "edges")]
    missing = [f"p{part}-…_{kind}.txt" for part, kind in wanted if (part, kind) not in found]
    if missing:
        raise EngineError(
            "pm_dglpart ended without an error, but has not written all partitions",
            found=f"no {', '.join(missing[:3])}" + (", …" if len(missing) > 3 else ""),
            expected=f"files of {num_parts} partitions",
            remedy="Run it by hand in a folder with the text, and read what it prints.",
        )


def _command(config: PartitionConfig, name: str, *, use_program: bool) -> list[str]:
    library = config.own(MpiOptions).library
    words = [
        sys.executable,
        "-m",
        "partition_ops.cli",
        TASK,
        name,
        str(config.num_parts // config.own(MpiOptions).number),
    ]
    if use_program:
        return [*words, "--use-program"]
    words += ["--seed", str(config.seed)]
    if config.tolerance is not None:
        words += ["--tolerance", str(config.tolerance)]
    if library.path is not None:
        path = str(Path(library.path).absolute())
        words += ["--parmetis-library", path, "--parmetis-index-bits", str(library.index_bits)]
    return words
