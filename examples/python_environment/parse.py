"""Parse source files in parallel into small summaries for the graph."""

from __future__ import annotations

import ast
import gc
import multiprocessing
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from examples.python_environment import features
from examples.python_environment.discover import SourceFile
from examples.python_environment.scopes import BUILTIN, UNKNOWN, Definition, Ref, Scope, refer
from examples.python_environment.syntax import dotted_name, has_docstring
from examples.python_environment.walk import Walk
from partition_ops.system.signals import end_with_parent

FILES_AT_ONCE = 32  # files in one message to a process: few messages, still even work
Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class ParsedModule:
    """The summary of one module. Numbers of classes and functions count within the module.

    Attributes:
        name: Dotted name.
        definitions: By number of the definition: a function as ``f``, a class as ``-1 - c``.
        functions: Qualified names of the functions.
        classes: Qualified names of the classes.
        function_parents: By function, the definition around it, -1 for the module.
        bindings: What the names of the module lead to; assigned names are left out.
        members: By class, what the names in its body lead to.
        bases: By class, what its bases lead to.
        stars: Modules that everything is imported from.
        imports: How many names are imported from where: (module, name or nothing).
        refs: All called names, without duplicates.
        calls: Rows of function, position in `refs`, number of call sites; int64.
        lost_calls: By function, call sites of built-in functions and of unknown targets.
        module_features: Features, one row each.
        class_features: A row a class.
        function_features: A row a function.
    """

    name: str
    definitions: list[int]
    functions: list[str]
    classes: list[str]
    function_parents: list[int]
    bindings: dict[str, Ref]
    members: list[dict[str, Ref]]
    bases: list[list[Ref]]
    stars: list[str]
    imports: dict[tuple[str, str], int]
    refs: list[Ref]
    calls: Array
    lost_calls: Array
    module_features: dict[str, Array]
    class_features: dict[str, Array]
    function_features: dict[str, Array]


def parse_files(files: Sequence[SourceFile], workers: int) -> Iterator[ParsedModule | None]:
    """Parse files in their order; None for files that cannot be parsed.

    Args:
        files: Files to parse.
        workers: Number of processes; with one, no other process is started.
    """
    if workers == 1:
        yield from map(parse_file, files)
        return
    context = multiprocessing.get_context("spawn")  # a fork would inherit the threads of the progress bar
    with ProcessPoolExecutor(workers, context, _begin_worker, (os.getpid(),)) as pool:
        yield from pool.map(parse_file, files, chunksize=FILES_AT_ONCE)


def _begin_worker(parent: int) -> None:
    end_with_parent(parent)()  # workers of a killed process would wait for files for ever
    gc.disable()


def parse_file(file: SourceFile) -> ParsedModule | None:
    """Parse one file; return None if it is not valid Python of this version."""
    try:
        source = file.path.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # do not report invalid escapes and the like
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _compact(Walk(file.module, file.is_package).run(tree), file, tree, source)


def _compact(walk: Walk, file: SourceFile, tree: ast.Module, source: bytes) -> ParsedModule:
    functions = [d for d in walk.definitions if not d.body.is_class]
    classes = [d for d in walk.definitions if d.body.is_class]
    calls = _Calls(walk.module)
    for number, function in enumerate(functions):
        calls.add(number, function.body)
    return ParsedModule(
        name=walk.module,
        definitions=_numbers(walk.definitions),
        functions=[d.name for d in functions],
        classes=[d.name for d in classes],
        function_parents=[d.around.owner for d in functions],
        bindings=_known(walk.scopes[0]),
        members=[d.body.bindings for d in classes],
        bases=[list(_bases(d, walk.module)) for d in classes],
        stars=walk.stars,
        imports=dict(walk.imports),
        refs=list(calls.refs),
        calls=np.array(calls.rows, np.int64).reshape(-1, 3),
        lost_calls=np.array(calls.lost, np.int32).reshape(-1, 2),
        module_features=features.of_module(walk, source, file.is_package, has_docstring(tree.body)),
        class_features=features.of_classes(classes),
        function_features=features.of_functions(functions),
    )


def _numbers(definitions: Iterable[Definition]) -> list[int]:
    seen = Counter[bool]()
    numbers = []
    for definition in definitions:
        is_class = definition.body.is_class
        numbers.append(-1 - seen[True] if is_class else seen[False])
        seen[is_class] += 1
    return numbers


def _known(scope: Scope) -> dict[str, Ref]:
    return {name: ref for name, ref in scope.bindings.items() if ref != UNKNOWN}


def _bases(definition: Definition, module: str) -> Iterator[Ref]:
    for base in definition.node.bases if isinstance(definition.node, ast.ClassDef) else ():
        name = dotted_name(base.value if isinstance(base, ast.Subscript) else base)  # Generic[T] is Generic
        ref = refer(definition.around, name, module) if name else UNKNOWN
        if ref not in (UNKNOWN, BUILTIN):
            yield ref


class _Calls:
    """Collects the calls of a module's functions."""

    def __init__(self, module: str) -> None:
        self.refs: dict[Ref, int] = {}
        self.rows: list[tuple[int, int, int]] = []
        self.lost: list[tuple[int, int]] = []
        self._module = module

    def add(self, function: int, scope: Scope) -> None:
        lost = {BUILTIN: 0, UNKNOWN: scope.other_calls}
        for dotted, count in scope.calls.items():
            ref = refer(scope, dotted, self._module)
            if ref in lost:
                lost[ref] += count
            else:
                self.rows.append((function, self.refs.setdefault(ref, len(self.refs)), count))
        self.lost.append((lost[BUILTIN], lost[UNKNOWN]))
