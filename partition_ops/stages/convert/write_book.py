"""The last task of a conversion: the book, and the files of each format that describe all partitions."""

from __future__ import annotations

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_meta
from partition_ops.artifacts.book import Book, read_all_stats
from partition_ops.artifacts.records import forget_task, part_task, read_record, stored_objects
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, input_objects
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.formats.format import main_config
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.whole_graph import whole_graph


def write_book(conversion: Conversion) -> StageResult:
    """Write ``convert/book.json`` once every partition is there, and what each format has beside them.

    For the format ``dgl`` that is ``partitions/<graph>.json``. Ranges of new IDs tile the ID space by
    partition and by type inside a partition; a type that a partition has nothing of gets ``[x, x]``.

    Args:
        conversion: The conversion, whose partitions have been gathered. Of its input, ``metadata.json`` is
            read, and features that a format stores for the whole graph.

    Returns:
        The number of partitions, and the key of the file that the first format is opened by.

    Raises:
        InvalidInputError: A partition is missing, or was built while the input changed.

    Peak memory: 8 bytes for each type and partition; see `whole_graph` for formats with files of the whole
    graph.
    """
    _check_input(conversion)
    metadata, destination = conversion.metadata, conversion.destination

    def work(writer: ArtifactWriter) -> Counters:
        stats = read_all_stats(destination, conversion.num_parts)
        book = Book(
            graph_name=metadata.graph_name,
            num_parts=conversion.num_parts,
            num_hops=conversion.config.num_hops,
            part_method=str(read_meta(destination.child(layout.ASSIGNMENT))["algo_name"]),
            node_counts={t: tuple(part["inner_nodes"][t] for part in stats) for t in metadata.node_types},
            edge_counts={t: tuple(part["edges"][t] for part in stats) for t in map(str, metadata.edge_types)},
            formats=conversion.config.formats,
            reverse_edges=metadata.reverse_edges,
        )
        writer.write_json(layout.BOOK, book.to_json())
        graph = whole_graph(conversion, book)
        for form in conversion.formats:
            for name, data in form.config_files(book).items():
                writer.wrote(writer.destination.write_bytes(form.key(name), data))
            for name, file in form.whole_files(graph).items():
                with writer.create(form.key(name)) as new, new.path.open("wb") as stream:
                    file.write(stream)
        return {"partition_config": main_config(book), "num_parts": book.num_parts}

    return conversion.book_task(work).run()


def _check_input(conversion: Conversion) -> None:
    """Reject partitions of an input that has changed while they were built, and forget them.

    Raises:
        InvalidInputError: It has changed; the message names the files.
    """
    now = {entry.key: entry for entry in input_objects(conversion.source, conversion.metadata)}
    changed: set[str] = set()
    for part in range(conversion.num_parts):
        read = stored_objects(read_record(conversion.destination, part_task(part)))
        other = {entry.key for entry in read if now.get(entry.key) != entry}
        if other:
            forget_task(conversion.destination, part_task(part))
        changed |= other
    if changed:
        raise InvalidInputError(
            f"The input {conversion.source.uri} has changed while its partitions were built",
            found=f"another size or time of {some_of(sorted(changed))}",
            expected="files that stay as they are until the job has ended",
            remedy="Run the job again with the files as they are now; write new files beside them, not over"
            " them.",
        )
