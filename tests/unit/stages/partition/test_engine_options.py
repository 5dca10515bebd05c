"""Options of engines are found, and come over MPI as they are."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from partition_ops.stages.partition import engines
from partition_ops.stages.partition.mpi.job import _made
from partition_ops.stages.partition.mpi.options import LibraryOptions, MpiOptions
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.traffic.options import SamplingOptions


@pytest.mark.parametrize("assigned", ["OPTIONS = ", "OPTIONS: tuple[str, type] = "])
def test_options_of_an_engine_are_found_with_and_without_a_type(
    assigned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"own{len(assigned)}"
    (tmp_path / f"{name}.py").write_text(f"{assigned}('own', dict)\n")
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(tmp_path)])
    assert engines.engine_options()[name] == ("own", dict)


def test_ranks_get_all_options() -> None:
    config = PartitionConfig(
        num_parts=2,
        target_shares=(1.0, 2.0),
        balance_ntypes=("train_mask", "val_mask"),
        sampling=SamplingOptions(train_nodes=("a", "b"), fanouts=(3, 4)),
        mpi=MpiOptions(ranks=3, library=LibraryOptions(path="/lib.so", index_bits=64, real_bits=64)),
    )
    assert _made(PartitionConfig, json.loads(json.dumps(asdict(config)))) == config
