"""GraphStorm's graph construction on the tables of `benchmarks.ingest`, up to arrays in memory.

    python -m benchmarks.ingest_graphstorm TABLES OUTPUT

Calls the functions that ``python -m graphstorm.gconstruct.construct_graph`` calls before it builds and saves
a DGL graph: ``process_node_data`` (pandas and NumPy read the tables, and map text keys to IDs) and
``process_edge_data``; then the ID maps are saved. The graph itself is neither built nor written. Needs
graphstorm 0.5.1, and this project's packages; modules of GraphStorm that only training needs are not
imported.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.mag_graph import EDGES, NODES
from partition_ops.system.dgl_import import import_dgl

PROCESSES = 2
UNUSED = ("transformers", "autogluon")  # for features that the tables do not have


class _Unused(ModuleType):
    """Stands for a module that is imported, and whose content is not used here."""

    __path__: list[str] = []  # noqa: RUF012 - it may have modules of its own

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Finds an `_Unused` for every module of the packages in `UNUSED`."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        unused = name.split(".")[0] in UNUSED or name.startswith("graphstorm.config")
        return ModuleSpec(name, self, is_package=True) if unused else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Unused(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


def import_construct_graph() -> Any:
    """Import the module without the packages around it, which import everything that training needs."""
    import_dgl()
    spec = importlib.util.find_spec("graphstorm")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("graphstorm is not installed")
    root = spec.submodule_search_locations[0]
    for name in ("graphstorm", "graphstorm.gconstruct", "graphstorm.data"):
        package = ModuleType(name)
        package.__path__ = [str(Path(root, *name.split(".")[1:]))]
        package.__spec__ = ModuleSpec(name, None, is_package=True)
        sys.modules[name] = package
    sys.meta_path.insert(0, _Finder())
    from graphstorm.gconstruct import construct_graph  # type: ignore[import-not-found]

    return construct_graph


def main() -> None:
    tables, output = Path(sys.argv[1]), Path(sys.argv[2])
    module = import_construct_graph()

    def files(name: str) -> dict[str, Any]:
        found = [str(path) for path in sorted(tables.glob(f"{name}-*.parquet"))]
        return {"format": {"name": "parquet"}, "files": found}

    nodes: list[dict[str, Any]] = [{"node_type": name, "node_id_col": "id", **files(name)} for name in NODES]
    next(node for node in nodes if node["node_type"] == "paper")["features"] = [{"feature_col": "feat"}]
    edges = []
    for name in EDGES:
        relation = name.split(":")
        ends = {"source_id_col": "src", "dest_id_col": "dst"}
        edges.append({"relation": relation, **ends, **files(relation[1])})
    module.verify_confs({"nodes": nodes, "edges": edges})
    merger = module.ExtMemArrayMerger(None, 0)
    id_maps, *_ = module.process_node_data(nodes, merger, True, None, num_processes=PROCESSES)
    found, *_ = module.process_edge_data(edges, id_maps, merger, None, num_processes=PROCESSES)
    for name, id_map in id_maps.items():
        id_map.save(str(output / "raw_id_mappings" / name))
    print(json.dumps({str(name): len(pair[0]) for name, pair in found.items()}))


if __name__ == "__main__":
    main()
