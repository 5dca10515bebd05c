"""Open a folder of the format graphstorm with GraphStorm's own code, and print what it finds as JSON."""

from __future__ import annotations

import json
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar


class _Absent(ModuleType):
    """A module of AutoGluon, which GraphStorm imports for a transform of tables that is not used here."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


class _AutoGluon(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        wanted = fullname.split(".")[0] == "autogluon"
        return ModuleSpec(fullname, self, is_package=True) if wanted else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has no code."""


def main(config: str, asked: dict[str, Any]) -> None:
    sys.meta_path.insert(0, _AutoGluon())
    import graphstorm
    from graphstorm.dataloading import GSgnnData, GSgnnNodeDataLoader

    graphstorm.initialize(backend="gloo")
    nodes, edges = asked["nodes"], {tuple(name.split(":")): names for name, names in asked["edges"].items()}
    data = GSgnnData(config, node_feat_field=nodes, edge_feat_field=edges)
    ntype, etypes = asked["label_of"], data.g.canonical_etypes
    train = data.get_node_train_set([ntype])
    loader = GSgnnNodeDataLoader(
        data,
        train,
        [4],
        batch_size=8,
        node_feats=nodes,
        edge_feats=edges,
        label_field={ntype: "label"},
        train_task=True,
    )
    inputs, seeds, blocks = next(iter(loader))
    labels = data.get_node_feats(seeds, {ntype: ["label"]})
    features = data.get_node_feats(inputs, nodes)
    print(
        "found "
        + json.dumps(
            {
                "node_feat_size": graphstorm.get_node_feat_size(data.g, nodes),
                "edge_feat_size": {
                    ":".join(t): size for t, size in graphstorm.get_edge_feat_size(data.g, edges).items()
                },
                "train": sorted(train[ntype].tolist()),
                "features": {name: list(rows.shape) for name, rows in features.items()},
                "inputs": {name: len(ids) for name, ids in inputs.items()},
                "labels": {name: list(rows.shape) for name, rows in labels.items()},
                "edge_types": [":".join(t) for t in etypes],
                "blocks": len(blocks),
            },
            default=int,
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
