"""One pass over the files of a feature: the checks of values count what is wrong, and nothing is raised."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.feature_reader import ChunkLayout, FeatureReader, is_supported
from partition_ops.chunked.metadata import Feature
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.check import Check, example
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.defects import EXAMPLES, Defects
from partition_ops.stages.validate.graph_facts import FeatureFacts, FeatureFile, FeatureValues

Values = npt.NDArray[Any]
VALUES_AT_ONCE = 1 << 20  # few enough to stay in the cache from check to check


def scan_feature(
    feature: Feature, reader: FeatureReader, missing: Set[str], defects: Defects
) -> FeatureFacts:
    """Scan every file of a feature, one at a time.

    Args:
        feature: Which feature.
        reader: Reads it.
        missing: Keys of files that do not exist.
        defects: Takes the findings among the values.

    Returns:
        What the files are. Peak memory: one file that cannot be mapped, and some MB.
    """
    facts = FeatureFacts(feature, reader.rows, reader.rows_per_chunk, [])
    for index, key in enumerate(feature.data.files):
        file = FeatureFile(index, key) if key in missing else _scan_file(facts, index, reader, defects)
        facts.files.append(file)
    return facts


def _scan_file(facts: FeatureFacts, index: int, reader: FeatureReader, defects: Defects) -> FeatureFile:
    key = facts.feature.data.files[index]
    try:
        values = reader.read_chunk(index)
    except InvalidInputError as error:
        return FeatureFile(index, key, error=str(error))
    layout = ChunkLayout(values.dtype.newbyteorder("="), values.shape[1:], len(values))
    if is_supported(layout.dtype) and values.size:
        _scan_values(facts, index, values, defects)
    return FeatureFile(index, key, layout)


def _scan_values(facts: FeatureFacts, index: int, values: Values, defects: Defects) -> None:
    checks = [check for check in CHECKS.values() if check.feature_values is not None]
    rows = max(VALUES_AT_ONCE * len(values) // values.size, 1)
    for start in range(0, len(values), rows):
        block = FeatureValues(facts.feature, index, start, values[start : start + rows])
        for check in checks:
            _ask(check, facts, block, defects)


def _ask(check: Check, facts: FeatureFacts, block: FeatureValues, defects: Defects) -> None:
    """Report the findings of a check among some values."""
    found = check.feature_values(block) if check.feature_values is not None else None
    if found is None or not found.any():
        return
    places = np.argwhere(found)
    examples = []
    for place in map(tuple, places[:EXAMPLES].tolist()):
        row = block.first_row + place[0]
        sentence = f"{block.values[place]} at {[row, *place[1:]]} of {facts.where(block.chunk)}"
        key = facts.feature.data.files[block.chunk]
        examples.append(example(sentence, file=key, chunk=block.chunk, row=row))
    defects.add(check.name, facts.feature.key, len(places), examples)
