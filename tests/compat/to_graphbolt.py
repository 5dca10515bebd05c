"""Compare graphs of the format graphbolt with what DGL 2.1 makes of the format dgl.

``python to_graphbolt.py CASES`` reads a JSON list of ``[CONFIG, GRAPHBOLT_CONFIG, ATTRIBUTES]``. It changes
the folder of each CONFIG.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from dgl.distributed import dgl_partition_to_graphbolt, load_partition


def state(graph: Any) -> dict[str, Any]:
    """All that a ``FusedCSCSamplingGraph`` holds."""
    found = {"indptr": graph.csc_indptr, "indices": graph.indices, "type_per_edge": graph.type_per_edge}
    found["node_type_offset"] = graph.node_type_offset
    for kind, attributes in (("node", graph.node_attributes), ("edge", graph.edge_attributes)):
        found[f"{kind} attributes"] = None if attributes is None else list(attributes)
        found |= {f"{kind} {name}": tensor for name, tensor in (attributes or {}).items()}
    return {**found, "node types": graph.node_type_to_id, "edge types": graph.edge_type_to_id}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other)


def compare(dgl_config: str, our_config: str, attributes: list[str]) -> None:
    dgl_partition_to_graphbolt(dgl_config, **{f"store_{name}": True for name in attributes})
    theirs, ours = (json.loads(Path(path).read_text()) for path in (dgl_config, our_config))
    for part in range(ours["num_parts"]):
        del theirs[f"part-{part}"]["part_graph"]  # ours points to what GraphBolt loads, and nothing else
        made, written = (load_partition(p, part, use_graphbolt=True) for p in (dgl_config, our_config))
        expected, found = state(made[0]), state(written[0])
        assert list(expected) == list(found)
        wrong = [name for name in expected if not same(expected[name], found[name])]
        assert not wrong, (our_config, part, wrong)
        for these, those in zip(made[1:3], written[1:3], strict=True):
            assert list(these) == list(those)
            assert all(same(these[name].view(torch.uint8), those[name].view(torch.uint8)) for name in these)
    assert theirs == ours


if __name__ == "__main__":
    cases = json.loads(Path(sys.argv[1]).read_text())
    for case in cases:
        compare(*case)
    print(f"compared {len(cases)} outputs")
