"""The text route of the DGL guide: text for ParMETIS, ``pm-dglpart``, and ``convert-partition``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import GraphStageOperator
from graph_partitioning.operators.prepare import PrepareGraphOperator
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.stages.partition.options import PartitionConfig, ProgramOptions

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class WriteTextOperator(PrepareGraphOperator, defaults={"format": "parmetis"}):
    """Writes the text files that ``pm_dglpart`` reads to ``prepare/`` of the run.

    Example::

        where = {
            "input_uri": "s3://graphs/citations",
            "output_uri": "s3://partitioned",
            "run_id": "{{ run_id }}",
        }
        text = WriteTextOperator(task_id="text", attributes=["feat"], **where)
        parts = PartitionTextOperator(task_id="pm_dglpart", num_parts=4, mpi_ranks=2, **where)
        convert = ConvertPartitionOperator(
            task_id="convert_partition", num_parts=4, node_attr_dtype="float32", **where
        )
        text >> parts >> convert >> PublishRunOperator(task_id="publish", **where)

    Args: As for `GraphStageOperator`, and ``weights`` and ``attributes`` of `PrepareConfig`.
    """


class PartitionTextOperator(GraphStageOperator, options=(PartitionConfig, ProgramOptions)):
    """Partitions the text with ``pm-dglpart`` under mpirun. It comes after `WriteTextOperator`.

    The worker needs ParMETIS, OpenMPI and mpi4py. If the run is on S3, the ranks run on this worker alone.

    Args: As for `GraphStageOperator`, and of `PartitionConfig` ``num_parts``, a multiple of ``mpi_ranks``,
        ``seed``, ``tolerance``, and the options for MPI and the library. ``use_program`` runs the
        ``pm_dglpart`` of the ParMETIS project that is on the worker's PATH; it needs neither mpi4py nor
        the system's library, and ignores ``seed``, ``tolerance`` and the library.
    """

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.chunked.metadata import load_metadata
        from partition_ops.stages.partition.pm_dglpart.run_text import partition_text

        name = load_metadata(source, graph_name=self.graph_name or None).graph_name
        config = self.config(PartitionConfig, engine="parmetis")
        use_program = self.config(ProgramOptions).use_program
        return partition_text(config, name, destination, use_program=use_program, progress=progress)


class ConvertPartitionOperator(
    GraphStageOperator, options=(ConvertPartitionConfig,), defaults={"num_node_weights": None}
):
    """Converts the output of ``pm-dglpart``, with ID maps, quality report and manifest.

    It comes after `PartitionTextOperator`. The result is in the root of the run: ``<graph>.json`` and
    ``part<i>/``. `PublishRunOperator` may follow: it writes ``latest.json`` and updates the assets.

    Args: As for `GraphStageOperator`, and the options of `ConvertPartitionConfig`. ``num_node_weights`` is
        read from the text by default.
    """

    num_node_weights: int | str | None

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.artifacts.graph_schema import schema_of
        from partition_ops.artifacts.layout import PARMETIS_TEXT
        from partition_ops.chunked.metadata import load_metadata
        from partition_ops.formats.parmetis.text_files import read_text_stats
        from partition_ops.jobs.convert_text import convert_text

        metadata = load_metadata(source, graph_name=self.graph_name or None)
        text, name = destination.child(PARMETIS_TEXT), metadata.graph_name
        weights = {} if self.num_node_weights else {"num_node_weights": read_text_stats(text, name)[2]}
        config = self.config(ConvertPartitionConfig, graph_name=name, **weights)
        return convert_text(config, text, schema_of(metadata), destination, progress=progress)
