"""Keys of everything that a run writes below its output root; no other module builds them.

The tree is the contract with users, with DGL and with later stages; ``docs/artifacts.md`` shows it.
"""

from __future__ import annotations

import re

MARKER = "partition-ops.json"  # says that a root is ours
MANIFEST = "manifest.json"
LATEST = "latest.json"
LOCK = "lock.json"
INDEX = "index.json"  # the figures of all runs of a graph; it can be made again from the runs
RUNS = "runs"  # below the root of a graph: a folder for each run
BEGINNING = "beginning.json"  # what was published last when the run began; no artifact, as it may differ

INGEST = "ingest"  # root of the graph that was made from tables, with a record of its own

VALIDATE_SCATTER = "validate-scatter"  # tasks, if there are several: then the number of the group
VALIDATE_GATHER = "validate-gather"  # then the number of the range
PREPARE_SCATTER = "prepare-scatter"  # tasks, if there are several: then the number of the group
PREPARE_GATHER = "prepare-gather"  # then the number of the range
VALIDATION_REPORT = "validation/report.json"
DROPPED = "dropped"  # kinds of lists of edges, also keys of the report
DROPPED_SELF_LOOPS = "dropped_self_loops"
EXCLUDED = "excluded"

PREPARED_GRAPH = "prepare/graph.parhip"
PREPARED_IN_DEGREES = "prepare/in_degrees.npy"
PREPARED_STATS = "prepare/stats.json"
PREPARED = (PREPARED_GRAPH, PREPARED_IN_DEGREES, PREPARED_STATS)
PARMETIS_TEXT = "prepare"  # folder of the text files; their names are in formats/parmetis/text_files.py

ASSIGNMENT = "assignment"
ASSIGNMENT_META = "partition_meta.json"  # relative to the folder of the assignment, as the next one
ASSIGNMENT_SIDECAR = "assignment.json"
MIGRATION = f"{ASSIGNMENT}/migration.json"  # what an incremental run moved

BOOK = "convert/book.json"  # the ranges of new IDs, whatever the formats

CONVERTED_TEXT = "convert/text.json"  # the text that `convert-partition` read

PARTITIONS = "partitions"

QUALITY_REPORT = "quality/report.json"
QUALITY_PAGE = "quality/report.html"
QUALITY_HISTORY = "quality/history.json"
APPROVAL = "quality/approval.json"  # the answer of a person to partitions that do not pass the gate
QUALITY_PROBE = "quality/probe.json"

CACHED_ROWS = "node_feat"
CACHE = "cache"  # rows of other partitions, for all formats

SCRATCH = "scratch"
# directly below an output's root, in addition to the folders of the stages (see `stage`)
OURS = {SCRATCH, MANIFEST, BEGINNING, LOCK, MARKER}
RECORDS = "records"
PLAN_TASK = "convert-plan"
SCATTER_TASK = "convert-scatter"  # then the number of the group
PART_TASK = "convert-part"  # then the number of the partition
CONFIG_TASK = "convert-config"
PREPARE_TEXT_TASK = "prepare-parmetis"  # writes the graph as ParMETIS's text
TEXT_TASK = "convert-partition"  # does the work of all tasks of ``convert``, from ParMETIS's output
TIMES = "records/seconds.svg"  # a picture of the times in the records
SPEEDS = "records/batches.svg"  # a picture of the speed that the probe recorded


def schema_file(graph_name: str) -> str:
    """Return the key of the homogeneous ID ranges by type, as DGL's convert_partition.py reads them."""
    return f"schema/{graph_name}.json"


def edge_list(kind: str, edge_type: str) -> str:
    """Return the key of the type-wise IDs of edges that validation lists: ascending, an int64 NumPy file.

    Args:
        kind: `DROPPED`, `DROPPED_SELF_LOOPS` (some of the former) or `EXCLUDED`.
        edge_type: As ``src:rel:dst``.
    """
    return f"validation/{kind}/{edge_type}.npy"


LEFTOVERS = re.compile(
    rf"validation/({DROPPED}|{DROPPED_SELF_LOOPS}|{EXCLUDED})/[^/:]+:[^/:]+:[^/:]+\.npy"
    r"|validation/data_docs/(index\.html|(expectations|validations)/[^/]+\.html)"
    r"|scratch/convert/(plan\.json|buckets/group\d+/(edges|features)\.(bin|json))"
    r"|scratch/(validate|prepare)/(group|range)\d+/[a-z_]+\d*\.(npy|bin|json)"
    r"|scratch/(ranks|parmetis)/(parts|classes|homes)\.npy"
    r"|scratch/partition/training\.json"
)


def is_leftover(key: str) -> bool:
    """Return whether a key is one of those that a killed task leaves and no later task overwrites.

    No record lists them, so they are known by the exact form of their keys.
    """
    return LEFTOVERS.fullmatch(key) is not None


INGESTED_DATA = (
    *("edges", "node_data", "edge_data", "node_ids", "edge_ids"),
    *("node_text", "previous_ids", "negatives"),
)
INGESTED_FOLDERS = {*INGESTED_DATA, "validation", RECORDS}
INGESTED = re.compile(
    rf"({'|'.join(INGESTED_DATA)})/.+-\d+\.(parquet|npy)"
    r"|validation/report\.json|validation/data_docs/.+|records/ingest\.json|metadata\.json|ingest\.json"
)


def is_ingested(key: str) -> bool:
    """Return whether a key below the root of an ingested graph is one that ``ingest`` writes or removes."""
    return INGESTED.fullmatch(key) is not None


def data_docs(name: str) -> str:
    """Return the key of a page of Great Expectations' Data Docs, or of a file that a page needs."""
    return f"validation/data_docs/{name}"


def assignment_text(node_type: str) -> str:
    """Return the key of the partition numbers of a node type, relative to the assignment's folder.

    Line i has the partition of the node with type-wise ID i.
    """
    return f"{node_type}.txt"


def assignment_binary(node_type: str) -> str:
    """Return the key of the same numbers as an int32 NumPy file, relative to the assignment's folder."""
    return f"{node_type}.npy"


def assignment_trainers(node_type: str) -> str:
    """Return the key of the trainers of all nodes, int32, relative to the assignment's folder."""
    return f"trainers/{node_type}.npy"


def assignment_still_there(node_type: str) -> str:
    """Return the key of which nodes of the previous graph have an ID in this one, (previous nodes,) bool.

    Their order is the same. It is relative to the assignment's folder, and only there if nodes were left out.
    """
    return f"still_there/{node_type}.npy"


def partition_folder(part: int) -> str:
    return f"{PARTITIONS}/part{part}"


def partition_stats(part: int) -> str:
    """Return the key of the counts of a partition, which the quality report uses."""
    return f"{partition_folder(part)}/stats.json"


def is_partition_stats(key: str) -> bool:
    """Return whether an object is the `partition_stats` of a partition, which no output format owns."""
    return key.startswith(f"{PARTITIONS}/part") and key.endswith("/stats.json")


def cache_folder(part: int) -> str:
    """Return the folder of the cached rows of a partition."""
    return f"{CACHE}/part{part}"


def cached_nodes(part: int, node_type: str) -> str:
    """Return the key of the nodes whose rows a partition caches: type-wise new IDs, an int64 NumPy file."""
    return f"{cache_folder(part)}/nids/{node_type}.npy"


def cached_orig_nodes(part: int, node_type: str) -> str:
    """Return the key of the same nodes by type-wise ID of the input, ascending, an int64 NumPy file."""
    return f"{cache_folder(part)}/orig_nids/{node_type}.npy"


def cached_rows(part: int, node_type: str, feature: str) -> str:
    """Return the key of a feature of these nodes, a NumPy file with a row for each of `cached_nodes`."""
    return f"{cache_folder(part)}/{CACHED_ROWS}/{node_type}/{feature}.npy"


CONVERT_SCRATCH = f"{SCRATCH}/convert"
CONVERT_PLAN = f"{CONVERT_SCRATCH}/plan.json"
BUCKETS = f"{CONVERT_SCRATCH}/buckets"  # folder of the files between scatter and gather
EDGES, EDGE_INDEX, ROWS, ROW_INDEX = "edges.bin", "edges.json", "features.bin", "features.json"


def bucket(group: int, name: str) -> str:
    """Return the key of what ``scatter`` found in a group of chunks, by the partition that owns it.

    Args:
        group: Number of the group.
        name: `EDGES` or `ROWS` (of features), or the index of either.
    """
    return f"{BUCKETS}/group{group}/{name}"


VALIDATE_SCRATCH = f"{SCRATCH}/validate"  # folder of the files between the tasks of ``validate``
PREPARE_SCRATCH = f"{SCRATCH}/prepare"  # folder likewise of ``prepare``


def spread_block(folder: str, group: int, number: int) -> str:
    """Return the key of what a scatter of `SpreadTasks` found in a group of files for a range."""
    return f"{folder}/group{group}/range{number}.bin"


def spread_group(folder: str, group: int, name: str) -> str:
    """Return the key of what else a scatter found in a group of files, such as the index of the blocks."""
    return f"{folder}/group{group}/{name}"


def spread_range(folder: str, number: int, name: str) -> str:
    """Return the key of what a gather made of a range."""
    return f"{folder}/range{number}/{name}"


# what trainers are expected to fetch, which ``quality`` takes over
KEPT_TRAINING = f"{SCRATCH}/partition/training.json"
RANKS_PARTS = f"{SCRATCH}/ranks/parts.npy"  # what MPI's ranks leave for the stage ``partition``
RANKS_CLASSES = f"{SCRATCH}/ranks/classes.npy"  # what it leaves for them
RANKS_HOMES = f"{SCRATCH}/ranks/homes.npy"  # ... where nodes are, in an incremental run

IDMAP = "idmap"


def node_id_map(node_type: str) -> str:
    return f"{IDMAP}/nodes/{node_type}.parquet"


def edge_id_map(edge_type: str) -> str:
    return f"{IDMAP}/edges/{edge_type}.parquet"


def carry_over_map(node_type: str) -> str:
    """Return the key of the map from the previous run's new IDs of old nodes to those of this run."""
    return f"{IDMAP}/carry_over/nodes/{node_type}.parquet"


def dropped_edge_map(edge_type: str) -> str:
    """Return the key of the list of dropped edges, with the check that dropped each."""
    return f"{IDMAP}/dropped/edges/{edge_type}.parquet"


def negative_map(edge_type: str) -> str:
    """Return the key of the negatives of an edge type, with the new IDs of their ends."""
    return f"{IDMAP}/negatives/{edge_type}.parquet"


def node_id_vector(node_type: str) -> str:
    """Return the key of the original IDs by type-wise new ID, an int64 NumPy file."""
    return f"{IDMAP}/nodes/{node_type}.npy"


def edge_id_vector(edge_type: str) -> str:
    """Return the key of the original IDs by type-wise new ID, an int64 NumPy file."""
    return f"{IDMAP}/edges/{edge_type}.npy"


# partitions by homogeneous ID of the input graph; named and placed as DGL does
NODE_MAP = f"{PARTITIONS}/node_map.npy"
EDGE_MAP = f"{PARTITIONS}/edge_map.npy"


def record(task: str) -> str:
    """Return the key of the record of a finished task, which is written after its artifacts."""
    return f"{RECORDS}/{task}.json"


def task_of(key: str) -> str | None:
    """Return the name of the task whose record has a key; None for a key of no record."""
    found = re.fullmatch(rf"{RECORDS}/([^/]+)\.json", key)
    return found and found[1]
