"""The stage ``idmap``, and rows in the order of the input."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.operators.base import FinishedRunOperator, GraphStageOperator
from partition_ops.stages.idmap.options import OwnIds, RemapConfig

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.storage import Store


class ExportIdMapsOperator(GraphStageOperator, stage="idmap"):
    """Writes the tables from original to new IDs. It comes after ``convert``.

    Example::

        ExportIdMapsOperator(
            task_id="idmap",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args: As for `GraphStageOperator`, and the options of `IdMapConfig`.
    """


class RestoreRowsOperator(FinishedRunOperator, options=(RemapConfig, OwnIds)):
    """Puts embeddings from training into the order of the input, as ``partition-ops idmap restore`` does.

    Example::

        RestoreRowsOperator(
            task_id="restore",
            output_uri="s3://partitioned/citations",
            node_type="paper",
            input_files=["s3://trained/part0.npy", "s3://trained/part1.npy"],
            output_file="s3://trained/papers.parquet",
            ids_from="s3://graphs/citations",
        )

    Args:
        input_files: Files with the rows, in the order of the type-wise new IDs: local paths or ``s3://…``.
            Text from a template separates them by commas.
        output_file: The file to write.
        kwargs: As for `FinishedRunOperator`, and the options of `RemapConfig` and `OwnIds`.

    Returns:
        The number of rows, their type, shape and dtype, and the URI of the output.
    """

    template_fields: Sequence[str] = (*FinishedRunOperator.template_fields, "input_files", "output_file")

    def __init__(self, *, input_files: str | Sequence[str], output_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_files = input_files
        self.output_file = output_file

    def execute(self, context: Context) -> Any:
        from partition_ops.artifacts.layout import INGEST
        from partition_ops.jobs.open_graph import open_own_ids
        from partition_ops.stages.idmap.restore import restore_rows
        from partition_ops.stages.idmap.row_files import RowFile
        from partition_ops.storage.uris import split_file_uri
        from partition_ops.system.progress import LineProgress

        hook = GraphStorageHook(self.storage_conn_id)
        with self.opened() as run, ExitStack() as stack:
            config, own = self.config(RemapConfig), self.config(OwnIds)

            def opened(uri: str) -> Store:
                return stack.enter_context(hook.open(uri))

            def file(uri: str, what: str) -> RowFile:
                root, key = split_file_uri(uri.strip(), what)
                return RowFile(opened(root), key)

            listed = self.input_files.split(",") if isinstance(self.input_files, str) else self.input_files
            return restore_rows(
                config,
                run,
                [file(uri, "input_files") for uri in listed],
                file(self.output_file, "output_file"),
                ids=open_own_ids(own, config, opened, lambda: run.child(INGEST)),
                progress=LineProgress(self.log.info),
            )
