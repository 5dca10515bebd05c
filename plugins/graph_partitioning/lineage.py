"""Lineage for OpenLineage: which tables or which graph a published run was made from.

Everything of OpenLineage is imported when its provider asks, so that nothing is needed without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partition_ops.storage import Store

GENERATED = "openlineage.client.generated"
OF_TYPES = {"node_types": ("node type", "nodes"), "edge_types": ("edge type", "edges")}


def lineage_of(run: Store, input_uri: str) -> Any:
    """Return the ``OperatorLineage`` of a published run.

    The inputs are the tables of a ``graph.yaml``, or the graph. The output is the graph's root, under the
    same name for all its runs, with the run as its version, types and features as its schema, and edges and
    bytes as its statistics.

    Args:
        run: Root of the run, below ``runs/`` of the graph or an output of its own.
        input_uri: Input of the run.

    Raises:
        ImportError: OpenLineage's provider is not installed.
    """
    from partition_ops.artifacts.layout import QUALITY_REPORT
    from partition_ops.artifacts.manifest import read_validation_report
    from partition_ops.artifacts.run_figures import summary

    event = import_module("openlineage.client.event_v2")
    version = import_module(f"{GENERATED}.dataset_version_dataset").DatasetVersionDatasetFacet
    schema = import_module(f"{GENERATED}.schema_dataset")
    statistics = import_module(f"{GENERATED}.output_statistics_output_dataset")
    lineage = import_module("airflow.providers.openlineage.extractors.base").OperatorLineage

    root, _, name = run.uri.rpartition("/runs/")
    figures = summary(run.read_json(QUALITY_REPORT))
    fields = [
        schema.SchemaDatasetFacetFields(
            name=one["name"],
            type=one["type"],
            description=one["description"],
            fields=[schema.SchemaDatasetFacetFields(name=f, type=dtype) for f, dtype in one["features"]],
        )
        for one in types_of(read_validation_report(run))
    ]
    facets = {"schema": schema.SchemaDatasetFacet(fields=fields)}
    if root:
        facets["version"] = version(datasetVersion=name)
    counts = statistics.OutputStatisticsOutputDatasetFacet(
        rowCount=figures["num_edges"], size=figures["bytes"]
    )
    output = event.OutputDataset(
        *dataset_name(root or run.uri), facets=facets, outputFacets={"outputStatistics": counts}
    )
    inputs = [event.InputDataset(*dataset_name(uri)) for uri in inputs_of(run, input_uri)]
    return lineage(inputs=inputs, outputs=[output])


def inputs_of(run: Store, input_uri: str) -> list[str]:
    """Return the URIs of the files of all tables, or that of the graph, if it is not made from tables."""
    from partition_ops.artifacts.layout import INGEST
    from partition_ops.stages.ingest.options import is_graph_file
    from partition_ops.stages.ingest.previous_graph import MANIFEST
    from partition_ops.storage.uris import split_uri

    key = f"{INGEST}/{MANIFEST}"
    if not is_graph_file(input_uri) or not run.exists(key):
        return [input_uri.rstrip("/")]
    folder, _ = split_uri(input_uri)
    named = (one["file"] for files in run.read_json(key)["tables"].values() for one in files)
    absolute = (
        file if "://" in file or file[0] in "/$" else f"{folder.rstrip('/')}/{file}" for file in named
    )
    return sorted(set(absolute))


def dataset_name(uri: str) -> tuple[str, str]:
    """Return OpenLineage's namespace and name of a file or a folder.

    They are ``s3://bucket`` and the key, ``file`` and the path, or the server and the database of a query;
    ``env`` and the name of the variable if only that is known.
    """
    if uri.startswith("$"):
        return "env", uri[1:]
    scheme, found, rest = uri.partition("://")
    if not found or scheme == "file":
        return "file", rest if found else uri
    host, _, name = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}", name.partition("?")[0] or "/"


def types_of(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the types of a validated graph: ``name``, ``type``, ``description``, and ``features``.

    These are pairs of a name and its dtype, with the shape of a row if it has one: ``float32[128]``.

    Args:
        report: ``validation/report.json``.
    """
    metrics = report["metrics"]
    for group, (kind, counted) in OF_TYPES.items():
        for one in metrics[group]:
            features = [
                (name, feature["dtype"] + feature["row_shape"].replace("[]", ""))
                for feature in metrics["features"]
                for owner, _, name in [feature["name"].rpartition("/")]
                if owner == one["name"]
            ]
            description = f"{one[counted]:,} {counted}"
            yield {"name": one["name"], "type": kind, "description": description, "features": features}
