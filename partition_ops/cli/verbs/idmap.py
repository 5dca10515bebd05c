"""``partition-ops idmap VERB``: ``export``, ``restore``, ``apply`` and ``carry-over``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.stage import find_stage
from partition_ops.cli.console import Console
from partition_ops.cli.locations import locked_output, open_run, settings
from partition_ops.cli.verb import ListedVerb, Verb
from partition_ops.cli.verbs.stage_verbs import stage_verb
from partition_ops.options.arguments import config_of
from partition_ops.stages.idmap.options import OwnIds, RemapConfig
from partition_ops.storage import open_store
from partition_ops.storage.uris import split_file_uri
from partition_ops.system.progress import terminal_progress

if TYPE_CHECKING:
    from partition_ops.storage import Store


def restore(arguments: argparse.Namespace, console: Console) -> Any:
    """Put rows back in the order of the input graph."""
    config = config_of(arguments, RemapConfig)
    ids = config_of(arguments, OwnIds)
    from partition_ops.jobs.open_graph import open_own_ids
    from partition_ops.stages.idmap.restore import restore_rows

    def own_ids(stack: ExitStack) -> dict[str, Any]:
        def opened(uri: str) -> Store:
            return stack.enter_context(open_store(uri, settings(arguments)))

        def ingested() -> Store:
            return stack.enter_context(open_run(arguments.run, arguments)).child(layout.INGEST)

        return {"ids": open_own_ids(ids, config, opened, ingested)}

    return _remap(restore_rows, config, arguments, console, own_ids)


def apply(arguments: argparse.Namespace, console: Console) -> Any:
    """Put rows in the order of the new IDs."""
    config = config_of(arguments, RemapConfig)
    from partition_ops.stages.idmap.restore import apply_rows

    return _remap(apply_rows, config, arguments, console)


def carry_over(arguments: argparse.Namespace, console: Console) -> Any:
    """Map the new IDs of one run to those of another."""
    from partition_ops.stages.idmap.carry_over import carry_over

    with (
        open_run(arguments.old_run, arguments) as old_run,
        open_run(arguments.new_run, arguments) as new_run,
        locked_output(arguments, "idmap carry-over") as output,
    ):
        result = carry_over(
            old_run, new_run, output, edges=not arguments.nodes_only, progress=terminal_progress()
        )
    console.line(f"{result['rows']:,} rows in {len(result['output'])} files below {output.uri}")
    return result


def _remap(
    work: Callable[..., dict[str, Any]],
    config: RemapConfig,
    arguments: argparse.Namespace,
    console: Console,
    more: Callable[[ExitStack], dict[str, Any]] = lambda stack: {},
) -> Any:
    """Open the files that the arguments name, do the work and print a line about the result.

    Args:
        work: `restore_rows` or `apply_rows`.
        config: Its options.
        arguments: Those of the command line.
        console: Prints the result.
        more: Returns further arguments of ``work``; the stack closes what it opens.
    """
    from partition_ops.stages.idmap.row_files import RowFile

    with ExitStack() as stack:

        def open_file(uri: str, option: str) -> RowFile:
            root, key = split_file_uri(uri, option)
            return RowFile(stack.enter_context(open_store(root, settings(arguments))), key)

        run = stack.enter_context(open_run(arguments.run, arguments))
        inputs = [open_file(uri, "--input") for uri in arguments.input]
        output = open_file(arguments.output, "--output")
        result = work(config, run, inputs, output, progress=terminal_progress(), **more(stack))
    files = result["output"]
    others = f" and {len(files) - 1} more" if len(files) > 1 else ""
    console.line(
        f"{result['rows']:,} rows of the {result['type']} in {files[0] if files else 'no file'}{others}"
    )
    return result


def export() -> Verb:
    """Return the verb of the stage."""
    return stage_verb(find_stage("idmap"))


def _add_remap_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="The OUTPUT of a run, with its ID maps, or s3://….")
    parser.add_argument(
        "--input",
        metavar="FILE",
        required=True,
        nargs="+",
        help="Files with the rows: .npy, .pt or .parquet, local or s3://….",
    )
    parser.add_argument("--output", metavar="FILE", required=True, help="The file to write, local or s3://….")


def _add_carry_over_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old_run", metavar="OLD_RUN", help="The OUTPUT of the old run, or s3://….")
    parser.add_argument("new_run", metavar="NEW_RUN", help="The OUTPUT of the new run, or s3://….")
    parser.add_argument("--output", metavar="DIR", required=True, help="Folder of the maps, or s3://….")
    parser.add_argument("--nodes-only", action="store_true", help="Leave out the maps of edges.")


RESTORE = Verb(
    description="""\
Row i of the input files, taken together, belongs to the type-wise new ID i, as DistTensor and DistGraph
number the nodes of a type: one file for the type, or one for each partition, in their order. Row i of the
output belongs to the type-wise ID i of the input graph. The suffix of a file selects its format: .npy, .pt or
.parquet. Files may be larger than memory. A .parquet output can have your own IDs in a column 'id'.""",
    add_arguments=_add_remap_arguments,
    options=(RemapConfig, OwnIds),
    execute=restore,
)

APPLY = Verb(
    description="""\
The inverse of 'restore': row i of the input files, taken together, belongs to the type-wise ID i of the
input graph, and row i of the output to the type-wise new ID i. If the name of the output contains {part}, one
file is written for each partition, with its number there.""",
    add_arguments=_add_remap_arguments,
    options=(RemapConfig,),
    execute=apply,
)

CARRY_OVER = Verb(
    description="""\
Write nodes/<type>.parquet and edges/<src:rel:dst>.parquet below --output after the same graph has been
partitioned again, with the columns old_new_id and old_type_new_id of the old run, and new_id and type_new_id
of the new one, sorted by old_new_id. They carry embeddings that were learned on the old partitions over to
the new ones.""",
    add_arguments=_add_carry_over_arguments,
    execute=carry_over,
)

VERB = Verb(
    description="""\
Map the IDs of the input to new IDs and back: 'export' writes the maps, 'restore' puts embeddings that were
saved in new-ID order back into the original order, 'apply' does the inverse, and 'carry-over' maps the new
IDs of one run to those of another. Without a verb it means 'export'.""",
    verbs=(
        ListedVerb("export", "write the new ID and the partition of every node and edge", export),
        ListedVerb("restore", "put embeddings back in the order of the input graph", lambda: RESTORE),
        ListedVerb("apply", "put features in the order of the new IDs", lambda: APPLY),
        ListedVerb("carry-over", "map the new IDs of an old run to those of a new one", lambda: CARRY_OVER),
    ),
    default="export",
)
