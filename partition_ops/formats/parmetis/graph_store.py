"""ParMETIS's text as an input graph: every stage reads it as a graph in the chunked format.

The text has homogeneous node IDs, and edges of all types in any order. `TextGraphStore` reads it once, when
it is opened, and writes the chunks into a temporary folder, which `TextGraphStore.close` removes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import new_folder

if TYPE_CHECKING:
    from partition_ops.formats.parmetis.schema_metadata import Schema
    from partition_ops.formats.parmetis.text_chunks import TextAttributes

STATS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)_stats\.txt")
MOST_LISTED = 10_000  # keys of a prefix that holds something else


class TextGraphStore(LocalStore):
    """The root of an input graph whose files are made from ParMETIS's text.

    Node and edge types have the names of the schema ``<graph>.json`` in the folder. Without it they are
    ``type<i>`` and ``relation<i>``, and ``_N`` and ``_E`` if there is one of each. Edges of
    ``<graph>_removed_edges.txt`` belong to the graph. Attributes become the feature ``feat``; a node weight
    that differs between nodes of a type becomes the feature ``weight<i>``, from 1.

    Args:
        text: Folder with ``<graph>_nodes.txt``, ``<graph>_edges.txt`` and ``<graph>_stats.txt``.
        graph_name: Name of the graph in the names of the files.
        attributes: How attributes become features.
        schema: Names of the types, instead of ``<graph>.json``.
        removed: Name of the file of removed edges, instead of ``<graph>_removed_edges.txt``.
        progress: Shows the rows read.

    Raises:
        InvalidInputError: A file is missing or has a wrong row; the message names file and line. The edge IDs
            of a type have a gap, or the counts differ from those of the schema or of the stats file.

    Peak memory: 1 byte an edge and 16 MiB of text. Temporary files: 16 bytes an edge, the edges as text and
    the attributes in their dtypes.
    """

    def __init__(
        self,
        text: Store,
        graph_name: str,
        *,
        attributes: TextAttributes | None = None,
        schema: Schema | None = None,
        removed: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        from partition_ops.formats.parmetis.text_chunks import TextAttributes, TextChunks

        super().__init__(new_folder())
        self.text = text
        self.uri = text.uri
        try:
            chunks = TextChunks(
                text,
                graph_name,
                attributes or TextAttributes(),
                self.root,
                schema=schema,
                removed=removed,
            )
            chunks.write(progress or NoProgress())
        except BaseException:
            self.close()
            raise
        listed = [(entry.key, entry.size, entry.tag) for entry in chunks.objects()]
        self._tag = hashlib.sha256(repr((listed, attributes)).encode()).hexdigest()[:32]

    @property
    def canonical_uri(self) -> str:
        return self.text.canonical_uri

    def stat(self, key: str) -> StoredObject | None:
        """Return size and tag of a file; the tag is that of the text, so that it lasts."""
        found = super().stat(key)
        return found and replace(found, tag=f"{found.size}-{self._tag}")

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.text.close()


def as_graph(store: Store, *, progress: Progress | None = None) -> Store:
    """Return the root of an input graph: the store itself, or one that reads ParMETIS's text in it.

    A folder without ``metadata.json`` that has one ``<graph>_stats.txt`` is taken for text.

    Args:
        store: The folder. It is closed with the result, or if this raises an error.
        progress: Shows the rows of the text.

    Raises:
        InvalidInputError: The text is wrong (see `TextGraphStore`), or there are several graphs.
    """
    try:
        name = find_text_graph(store)
        return store if name is None else TextGraphStore(store, name, progress=progress)
    except BaseException:
        store.close()
        raise


def find_text_graph(store: Store) -> str | None:
    """Return the name of the graph whose text is in a folder; None if there is none, or a chunked graph.

    Raises:
        InvalidInputError: There are several graphs.
    """
    if store.exists(METADATA):
        return None
    if isinstance(store, LocalStore):
        keys = sorted(path.name for path in store.root.glob("*_stats.txt"))
    else:
        keys = [entry.key for entry in islice(store.list(), MOST_LISTED)]
    names = [found[1] for key in keys if (found := STATS.fullmatch(key))]
    if len(names) > 1:
        raise InvalidInputError(
            f"{store.uri} has ParMETIS's text of several graphs",
            found=", ".join(f"{name}_stats.txt" for name in names),
            expected="one graph",
            remedy="Put each graph into a folder of its own.",
        )
    return names[0] if names else None
