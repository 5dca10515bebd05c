"""The protocol of output formats, and the registry that finds them by name.

A format is a class derived from `Format`. A built-in one is a package of ``partition_ops.formats``, with the
name of the format and ``_`` instead of ``-``, that names its class in ``FORMAT``; any other one is an entry
point of the group ``partition_ops.formats`` of an installed package. The protocol works in both directions:
``convert`` writes partitions through it; ``idmap``, ``train``, ``verify`` and other readers find the stored
columns through it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from partition_ops.artifacts import layout
from partition_ops.errors import UsageError
from partition_ops.system.plugins import plugins

if TYPE_CHECKING:
    from partition_ops.artifacts.book import Book
    from partition_ops.formats.columns import Array, StoredArray
    from partition_ops.formats.findings import Findings
    from partition_ops.formats.neutral_partition import Partition, WholeGraph
    from partition_ops.storage import Store

ENTRY_POINTS = "partition_ops.formats"
GROUPS = ("nodes", "edges", "node_features", "edge_features", "node_orig_ids", "edge_orig_ids")


@dataclass(frozen=True)
class FileWriter:
    """How one file of a partition is made."""

    # names of the columns, or of their groups, that the content depends on. If their digests have not changed
    # since the previous run, ``convert`` copies the file from there
    columns: Collection[str]
    write: Callable[[BinaryIO], object]  # writes the file to a binary stream, which can seek
    # files of a partition with the same ``content`` have the same bytes, whatever their formats. ``convert``
    # writes the first of them; the others become hard links, or copies that the S3 server makes. Empty if no
    # other file has these bytes
    content: str = ""
    options: str = ""  # options of the format that the content depends on, in addition to the columns


@dataclass(frozen=True)
class PartitionSize:
    """Expected or largest size of a partition."""

    nodes: int  # inner and halo nodes
    edges: int  # edges of its graph
    typed: bool  # whether there are several types of nodes or edges


class Format(ABC):
    """An output format: how a partition is written to files, and where its columns are in them.

    ``convert`` writes the files of partition i below ``<folder>/part<i>/`` and those that describe all
    partitions into ``<folder>/``: atomically, with digests for the manifest, to a local disk or to S3. A
    format itself never writes to storage. The same partition must always give the same bytes.
    """

    name: ClassVar[str]  # name in ``--formats``
    # raise it whenever the same partition gives other bytes: the partitions are then converted again
    version: ClassVar[int] = 1
    # checks of ``verify`` that only this format has: what must hold, by name
    checks: ClassVar[Mapping[str, str]] = {}
    # name of the layout of the files with features and original IDs. Formats with the same name share these
    # files. Empty if the format has its own layout
    feature_files: ClassVar[str] = ""
    graph_files: ClassVar[str] = ""  # the same for the other files of partitions
    # columns of nodes and edges that `load` does not return, or not with all options: some of
    # ``nodes/orig_id``, ``nodes/part_id``, ``edges/orig_id`` and ``edges/new_id``
    not_stored: ClassVar[Collection[str]] = ()
    # whether `arrays` finds the groups ``nodes`` and ``edges``, which training reads
    has_graph: ClassVar[bool] = True
    # whether `arrays` finds the other columns. Every output needs a format that is readable, for ID maps and
    # training
    readable: ClassVar[bool] = True
    # whether it has files of partitions; if not, all files are those of `whole_files`
    of_partitions: ClassVar[bool] = True
    # memory that writing `whole_files` takes, in bytes a node and bytes an edge of the graph
    whole_bytes: ClassVar[tuple[int, int]] = (0, 0)
    # whether a feature with one number a row may have a further axis of length 1 in `load`
    has_matrices: ClassVar[bool] = False
    # whether `load` finds in-edges of inner nodes and their sources only, also with the options ``--num-
    # hops`` 2 or more and ``--out-edges``
    only_in_edges: ClassVar[bool] = False
    # whether the servers that load it fail on a feature of which their partition has no row
    needs_rows: ClassVar[bool] = False

    @property
    def folder(self) -> str:
        """Folder of the format below the root of the output; empty if it is the root itself."""
        return f"formats/{self.name}"

    def part_folder(self, part: int) -> str:
        """Return the key of the folder of a partition."""
        return self.key(f"part{part}")

    def key(self, path: str) -> str:
        """Return the key of a file of the format, below the root of the output."""
        return f"{self.folder}/{path}" if self.folder else path

    def check_options(self, formats: Sequence[str], num_hops: int) -> None:  # noqa: B027
        """Check, before any work, that the format can be written; optional.

        Args:
            formats: Names of all formats of the output.
            num_hops: Number of hops of the halo.

        Raises:
            UsageError: It cannot.
        """

    @abstractmethod
    def partition_files(self, partition: Partition) -> Mapping[str, FileWriter]:
        """Return the files of a partition by path inside its folder, in the order in which to write them.

        Peak memory of writing: a few blocks of 1 MiB, unless the format says otherwise.
        """

    def memory(self, size: PartitionSize, options: Mapping[str, Any]) -> int:
        """Return the bytes of memory that writing a partition takes beside a few blocks, at most.

        Args:
            size: Size of the partition.
            options: Options of ``convert``.
        """
        return 0

    def disk(self, size: PartitionSize, options: Mapping[str, Any]) -> int:
        """Return the bytes of a partition's files without features and original IDs, for the estimate."""
        return 0

    def config_files(self, book: Book) -> Mapping[str, bytes]:
        """Return the files that describe all partitions, by path inside the folder of the format.

        The first is the one that a reader opens; there may be none, since ``convert/book.json`` describes the
        partitions of every format.
        """
        return {}

    def whole_files(self, graph: WholeGraph) -> Mapping[str, FileWriter]:
        """Return files with columns of the whole graph, by path inside the folder of the format; optional.

        They are written after all partitions. A file without columns is small.
        """
        return {}

    @abstractmethod
    def arrays(self, output: Store, part: int, *, group: str = "") -> Mapping[str, StoredArray]:
        """Find the columns of a stored partition without reading them.

        Keys are the names of `Partition` columns. ``nodes/type_id`` and ``edges/type_id`` may be missing
        (the book tells the type of every new ID). ``edges/src`` and ``edges/dst`` may be missing if the
        format holds a sparse matrix instead: ``edges/csc/indptr`` (num_nodes + 1,), ``edges/csc/indices``
        (num_edges,), the sources, and ``edges/csc/edge_ids`` (num_edges,), positions in the columns of edges;
        or ``edges/csr/…``, by source. Booleans may be stored as uint8.

        Args:
            output: Root of the output.
            part: Number of the partition.
            group: The group that is wanted, such as ``node_features``; others may then be left out.

        Raises:
            InvalidInputError: A file is missing, or is not of this format.

        Peak memory: a few KiB. From S3 only headers are fetched, by range requests.
        """

    def load(self, output: Store, part: int, groups: Collection[str] = GROUPS) -> dict[str, Array]:
        """Load groups of columns of a stored partition as its users do, into arrays by column name.

        ``verify`` compares them with the input. ``edges/src`` and ``edges/dst`` must be among the edges.
        ``nodes/inner`` and ``edges/inner``, uint8, are 1 for what the partition owns, if the format stores
        that. By default the arrays are mapped from where `arrays` finds them.

        If the format does not store ``edges/orig_id``, the edges may be in any order. If it does not store
        ``edges/new_id`` either, the edges of a destination must be in the order of their new IDs.

        Raises:
            InvalidInputError: A file is missing or damaged.
        """
        found: dict[str, Array] = {}
        for group in groups:
            stored = self.arrays(output, part, group=group)
            found |= {name: stored[name].map(output) for name in stored if name.startswith(f"{group}/")}
        return found

    def load_whole(self, output: Store, expected: Book) -> dict[str, Array]:
        """Load the columns of the files of the whole graph as their users do, for ``verify``; optional.

        By original ID: ``edges/<src:rel:dst>/id``, ``…/src`` and ``…/dst``, type-wise, in any order;
        ``node_features/…`` and ``edge_features/…``. A feature may have a further axis of length 1.

        Raises:
            InvalidInputError: A file is missing or damaged.
        """
        return {}

    def check_config(self, findings: Findings, output: Store, expected: Book) -> None:  # noqa: B027
        """Check the files that describe all partitions; optional.

        Args:
            findings: Takes the failures of `checks`, and of the checks that all formats have.
            output: Root of the output.
            expected: The book that the output should have.
        """

    def check_partition(  # noqa: B027
        self, findings: Findings, output: Store, part: int, expected: Book, options: Mapping[str, Any]
    ) -> None:
        """Check what only this format has; optional. ``verify`` itself checks the columns of `load`.

        Args:
            findings: As for `check_config`.
            output: Root of the output.
            part: Number of the partition.
            expected: The book that the output should have.
            options: Options of ``convert``.
        """


def format_names() -> list[str]:
    """Return the names of the formats that ``convert`` can write, built-in ones first. Imports none."""
    return [*dict.fromkeys([*_builtin(), *(entry.name for entry in plugins(ENTRY_POINTS))])]


def get_format(name: str) -> Format:
    """Return the format of a name.

    Raises:
        UsageError: No format with that name is installed.
    """
    if name not in _builtin() and name not in format_names() and name not in _other_layouts():
        raise UsageError(
            f"The output format {name!r} is not installed",
            expected="one of " + ", ".join(format_names()),
            remedy=f"Install the package that has it as an entry point of the group {ENTRY_POINTS!r}.",
        )
    return _load(name)


def get_formats(names: Iterable[str]) -> list[Format]:
    """Return the formats of some names; see `get_format`."""
    return [get_format(name) for name in names]


def output_formats(names: Sequence[str], num_hops: int) -> list[Format]:
    """Return the formats of an output that can be written together.

    Args:
        names: Their names.
        num_hops: Number of hops of the halo.

    Raises:
        UsageError: A format is not installed, or they cannot be written with these options.
    """
    formats = get_formats(names)
    for form in formats:
        form.check_options(names, num_hops)
    if preferred_reader(formats) is None:
        raise UsageError(
            "ID maps cannot be made from these output formats alone",
            found=f"--formats {','.join(names)}",
            expected="a format in addition whose files this package reads",
            remedy=f"Use --formats dgl,{','.join(names)}.",
        )
    return formats


def reading_format(book: Book) -> Format:
    """Return the format that an output is read through: the first installed one that has the graph.

    If none has the graph, it is the first that is readable.

    Raises:
        UsageError: None of them is installed.
    """
    known = {*format_names(), *_other_layouts()}
    installed = get_formats(name for name in book.formats if name in known)
    return preferred_reader(installed) or get_format(book.formats[0])


def preferred_reader(formats: Iterable[Format]) -> Format | None:
    """Return the format that an output with these formats is read through; None if none is readable."""
    readable = [form for form in formats if form.readable]
    return next((form for form in readable if form.has_graph), readable[0] if readable else None)


def main_config(book: Book) -> str:
    """Return the key of the file that `reading_format` opens an output by: the book if it has none."""
    form = reading_format(book)
    for name in form.config_files(book):
        return form.key(name)
    return layout.BOOK


@cache
def _builtin() -> dict[str, str]:
    """Return ``module:class`` of the built-in formats by name."""
    import partition_ops.formats as package

    found = {}
    for module in iter_modules(package.__path__):
        if module.ispkg:  # their __init__ import nothing
            names = vars(import_module(f"{package.__name__}.{module.name}"))
            if "FORMAT" in names:
                found[module.name.replace("_", "-")] = str(names["FORMAT"])
    return found


@cache
def _other_layouts() -> dict[str, str]:
    """Return ``module:class`` by name of built-in formats that only `convert-partition` writes."""
    from partition_ops.formats.parmetis import LAYOUT

    return dict([LAYOUT])


@cache
def _load(name: str) -> Format:
    builtin = {**_builtin(), **_other_layouts()}
    if name in builtin:
        module, _, attribute = builtin[name].partition(":")
        found = getattr(import_module(module), attribute)
    else:
        found = next(entry for entry in plugins(ENTRY_POINTS) if entry.name == name).load()
    made: Format = found()
    return made
