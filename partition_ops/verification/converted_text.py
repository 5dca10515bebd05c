"""The input of an output of ``convert-partition``: the text that ParMETIS read, or the graph itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.formats.parmetis.graph_store import TextGraphStore
from partition_ops.storage import Store
from partition_ops.verification.artifact_readers import read_whole_manifest


def conversion_options(output: Store) -> Mapping[str, Any] | None:
    """Return the options of ``convert-partition``; None if something else wrote the output."""
    try:
        if output.exists(layout.MANIFEST):
            found = read_whole_manifest(output)["options"].get(layout.TEXT_TASK)
        elif output.exists(layout.record(layout.TEXT_TASK)):
            found = output.read_json(layout.record(layout.TEXT_TASK))["options"]
        else:
            return None
    except (InvalidInputError, KeyError, AttributeError, TypeError):  # the checks report it
        return None
    return found if isinstance(found, dict) else None


@contextmanager
def opened_text(source: Store, output: Store, options: Mapping[str, Any] | None) -> Iterator[Store]:
    """Yield the input with the attributes and type names of the conversion, if it is text.

    Args:
        source: Root of the input graph.
        output: Root of the finished output.
        options: See `conversion_options`.

    Raises:
        UsageError: The conversion left edges out; or it has attributes, and the input is not text.
    """
    if options is None:
        yield source
        return
    missing = output.read_json(layout.CONVERTED_TEXT)["missing_edges"]
    if missing:
        raise UsageError(
            f"{output.uri} cannot be verified: convert-partition accepted edges that are in no file",
            found=f"{missing} missing edges",
            remedy="Convert again with the file of removed edges, and without --missing-edges accept.",
        )
    if not isinstance(source, TextGraphStore):
        if options.get("node_attr_dtype") or options.get("edge_attr_dtype"):
            raise UsageError(
                f"{output.uri} has attributes, which only the text has",
                found=source.uri,
                expected="the folder with the text that pm_dglpart read",
            )
        yield source
        return
    from partition_ops.formats.parmetis.text_chunks import TextAttributes
    from partition_ops.formats.parmetis.text_files import attribute_dtype

    attributes = TextAttributes(
        str(options["attribute_name"]),
        attribute_dtype("--node-attr-dtype", options["node_attr_dtype"]),
        attribute_dtype("--edge-attr-dtype", options["edge_attr_dtype"]),
        weights=False,
    )
    name = str(options["graph_name"])
    schema = output.read_json(layout.schema_file(name))
    with TextGraphStore(
        source.text, name, attributes=attributes, schema=schema, removed=options["removed_edges"]
    ) as text:
        yield text
