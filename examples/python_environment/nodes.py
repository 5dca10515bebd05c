"""The nodes of the graph: names, features, labels and masks of the split."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from examples.python_environment.discover import Environment, Installed
from examples.python_environment.parse import ParsedModule
from examples.python_environment.resolve import Resolver
from examples.python_environment.tables import Array, Ints, Nodes

NUM_CLASSES = 16  # and one more label for all others
TRAIN, VALIDATION = 60, 20  # in percent; the rest is the test set


def distribution_nodes(found: Sequence[Installed]) -> Nodes:
    """Distributions.

    Shapes:
        version: int64 (n, 3), the first three numbers of the version.
        num_files: int64 (n,).
        has_compiled_code: bool (n,).
    """
    return Nodes(
        [one.name for one in found],
        {
            "version": np.array([_version(one.version) for one in found], np.int64).reshape(-1, 3),
            "num_files": np.array([one.num_files for one in found], np.int64),
            "has_compiled_code": np.array([one.has_compiled_code for one in found], bool),
        },
    )


def module_nodes(modules: Sequence[ParsedModule]) -> Nodes:
    """Modules by dotted name, with the features that they were parsed with."""
    return Nodes([m.name for m in modules], _joined([m.module_features for m in modules]))


def class_nodes(modules: Sequence[ParsedModule]) -> Nodes:
    """Classes as ``module:qualified name``, with the features that they were parsed with."""
    names = [f"{m.name}:{name}" for m in modules for name in m.classes]
    return Nodes(names, _joined([m.class_features for m in modules]))


def function_nodes(modules: Sequence[ParsedModule]) -> Nodes:
    """Functions as ``module:qualified name``, with the features that they were parsed with."""
    names = [f"{m.name}:{name}" for m in modules for name in m.functions]
    return Nodes(names, _joined([m.function_features for m in modules]))


def largest(environment: Environment, modules: Sequence[ParsedModule]) -> list[str]:
    """Return the distributions with the most functions, which are the labels."""
    size = Counter[str]()
    functions = {module.name: len(module.functions) for module in modules}
    for name, owner in _owners(environment).items():
        size[environment.distributions[owner].name] += functions.get(name, 0)
    return sorted(size, key=lambda name: (-size[name], name))[:NUM_CLASSES]


def labels(environment: Environment, modules: Sequence[ParsedModule], classes: Sequence[str]) -> Ints:
    """int64 (modules,), the distribution of each module as its place in `classes`, or after the last."""
    place = {name: label for label, name in enumerate(classes)}
    owners = _owners(environment)
    names = (environment.distributions[owners[module.name]].name for module in modules)
    return np.array([place.get(name, NUM_CLASSES) for name in names], np.int64)


def add_label(nodes: Nodes, label: Ints, seed: int) -> None:
    """Add a label and the three masks of a random split.

    The split depends only on the names of nodes, so that it stays the same when an environment grows.
    """
    dice = np.array([zlib.crc32(f"{seed}:{name}".encode()) % 100 for name in nodes.names], np.int64)
    nodes.features["label"] = label
    nodes.features["train_mask"] = dice < TRAIN
    nodes.features["val_mask"] = (dice >= TRAIN) & (dice < TRAIN + VALIDATION)
    nodes.features["test_mask"] = dice >= TRAIN + VALIDATION


def of_functions(resolver: Resolver, of_modules: Ints) -> Ints:
    """Properties of modules for the functions in them."""
    return np.repeat(of_modules, np.diff(resolver.first_function))


def _owners(environment: Environment) -> dict[str, int]:
    """Return the distribution of each module; of several, the first."""
    owners: dict[str, int] = {}
    for number, found in enumerate(environment.distributions):
        for module in found.modules:
            owners.setdefault(module, number)
    return owners


def _version(text: str) -> list[int]:
    numbers = [int(number) for number in re.findall(r"\d+", text)[:3]]
    return numbers + [0] * (3 - len(numbers))


def _joined(parts: Sequence[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
