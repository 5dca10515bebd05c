"""The steps from installed files to the graph in memory."""

from __future__ import annotations

from collections.abc import Sequence

from examples.python_environment import edges, nodes
from examples.python_environment.calls import OUTCOMES, Calls, resolve_calls
from examples.python_environment.discover import Environment
from examples.python_environment.parse import ParsedModule, parse_files
from examples.python_environment.resolve import Resolver
from examples.python_environment.tables import Graph, Nodes
from partition_ops.system.progress import Progress


def parse_environment(environment: Environment, workers: int, progress: Progress) -> list[ParsedModule]:
    """Return the modules that can be parsed, sorted by name."""
    parsed = []
    with progress.step("parse", len(environment.files), "files") as advance:
        for module in parse_files(environment.files, workers):
            parsed.append(module)
            advance(1)
    return [module for module in parsed if module is not None]


def build_graph(
    environment: Environment,
    modules: Sequence[ParsedModule],
    *,
    seed: int,
    classes: Sequence[str] | None,
    progress: Progress,
) -> Graph:
    """Resolve names and lay out the graph.

    Args:
        environment: The installed distributions.
        modules: Its modules, sorted by name.
        seed: Seed of the split into training, validation and test set.
        classes: Distributions that the labels stand for; default: the largest.
        progress: Shows the progress.

    Peak memory: `modules`, and twice the graph.
    """
    resolver = Resolver(modules)
    with progress.step("resolve", len(modules), "modules") as advance:
        calls = resolve_calls(resolver, advance)
    classes = nodes.largest(environment, modules) if classes is None else list(classes)
    sums = calls.sites.sum(axis=0)
    return Graph(
        nodes=_nodes(environment, resolver, calls, classes, seed),
        edges={
            "distribution:requires:distribution": edges.requires(environment),
            "distribution:contains:module": edges.contains(environment, resolver),
            "module:imports:module": edges.imports(resolver),
            **edges.definitions(resolver),
            "class:inherits:class": edges.inherits(resolver),
            "function:calls:function": calls.calls,
            "function:instantiates:class": calls.instantiates,
        },
        classes=list(classes),
        calls={outcome: int(total) for outcome, total in zip(OUTCOMES, sums, strict=True)},
    )


def _nodes(
    environment: Environment, resolver: Resolver, calls: Calls, classes: Sequence[str], seed: int
) -> dict[str, Nodes]:
    modules = nodes.module_nodes(resolver.modules)
    functions = nodes.function_nodes(resolver.modules)
    functions.features |= {"call_sites": calls.sites, "is_recursive": calls.is_recursive}
    label = nodes.labels(environment, resolver.modules, classes)
    nodes.add_label(modules, label, seed)
    nodes.add_label(functions, nodes.of_functions(resolver, label), seed)
    return {
        "distribution": nodes.distribution_nodes(environment.distributions),
        "module": modules,
        "class": nodes.class_nodes(resolver.modules),
        "function": functions,
    }
