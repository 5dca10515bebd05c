"""Options of ``ingest``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from partition_ops.options.declare import StageConfig, option
from partition_ops.options.values import memory_option

TableEngine = Literal["duckdb", "spark"]
OnRemoved = Literal["fail", "keep", "isolate", "renumber"]
TABLES = (".yaml", ".yml")
SAVED = ".bin"


@dataclass(frozen=True, kw_only=True)
class IngestConfig(StageConfig):
    """Options of ``ingest``."""

    table_engine: TableEngine = option(
        "duckdb",
        help="What joins and sorts the tables of a graph.yaml. duckdb: in this process, spilling to TMPDIR."
        " spark: PySpark, which must be installed; SPARK_MASTER names the cluster. Both give the same graph.",
        title="Engine for tables",
        section="More",
        metavar="ENGINE",
        recorded=False,
    )
    memory: int | None = memory_option(
        help="Memory of the process while it makes a graph of tables, 512M or more. The graph is the same.",
        empty="a quarter of the available memory",
    )

    reverse_edges: bool = option(
        False,
        help="Add a type of reverse edges for each edge type that has none: dst:rev_rel:src has an edge in"
        " the other direction for each edge of src:rel:dst, with the same features. The only type _N:_E:_N of"
        " homogeneous graphs gets its reverse edges itself. Nothing is copied.",
        title="Reverse edges",
        section="More",
    )

    on_removed: OnRemoved | None = option(
        None,
        help="What becomes of nodes of the previous graph that are in no table, instead of 'on_removed' in"
        " graph.yaml. fail: reject the tables. keep: they stay, with the edges that name them. isolate: they"
        " keep their IDs, without edges and outside of every split. renumber: they are left out, and"
        " previous_ids/ has the earlier IDs of the others.",
        title="Removed nodes",
        section="More",
        empty="as graph.yaml says",
    )

    def options(self) -> dict[str, Any]:
        """Return the options that the graph depends on, as JSON: the engines give the same graph."""
        options = super().options()
        return {name: value for name, value in options.items() if name == "graph_name" or value}


def is_graph_file(uri: str) -> bool:
    """Return whether an input is a file that is ingested, and not the folder of a graph.

    It is a ``graph.yaml`` that names tables, or a ``graph.bin`` that DGL saved.
    """
    return uri.endswith((*TABLES, SAVED))


def is_saved_graph(uri: str) -> bool:
    """Return whether an input is a file that ``dgl.save_graphs`` has written."""
    return uri.endswith(SAVED)
