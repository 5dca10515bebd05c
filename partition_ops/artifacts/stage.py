"""`Stage`, the declaration of a stage, and how to find the declarations, which imports no heavy library.

A stage is a package ``partition_ops/stages/<name>/`` with a declaration ``STAGE`` in its ``__init__.py``, or
an entry point of the group ``partition_ops.stages`` that names the declaration of a stage of another package.
Everything that has to do with several stages or their tasks reads the declarations: the job, the estimate,
the manifest, figures, retention, verbs, operators and the DAG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from itertools import chain
from pkgutil import iter_modules
from typing import Any, Generic, Literal, TypeVar, cast

from partition_ops.artifacts import layout
from partition_ops.errors import UsageError
from partition_ops.options.declare import StageConfig
from partition_ops.system.plugins import plugins

Found = TypeVar("Found")
Given = TypeVar("Given")

Beside = Callable[[Callable[[], None]], None]  # sees to it that some work is done
ENTRY_POINTS = "partition_ops.stages"
LAST = "publish"  # no stage follows it


@dataclass(frozen=True)
class StageTask:
    """A kind of task of a stage, and so of records."""

    name: str  # name of the task, and of its record
    # what there is a task for, with a number behind the name: each ``group`` of files, ``range`` of hashes
    # and of nodes, or ``part``; ``""`` for a single task
    each: Literal["", "group", "range", "part"] = ""
    # ``module:name`` of the function that does only this task, for workers that share a stage. It is called
    # as the function of the stage, with ``groups``, ``ranges`` or ``parts`` for the numbers, and then returns
    # a list of results
    run: str = ""
    seconds: str = ""  # name of the seconds of these tasks in the figures of a run; ``""`` leaves them out
    # whether it writes nothing but scratch, below ``scratch/<stage>/``: no manifest lists it, and ``publish``
    # removes it
    scratch: bool = False
    # whether the stage removes this scratch once it is done, so that it need not run again if ``publish``
    # removes scratch
    passing: bool = False


class _Imported(Generic[Found, Given]):
    """An attribute of a dataclass with classes, which may be given as ``module:name``.

    These are imported when the attribute is read: the list of verbs needs no options. Importing the options
    of all stages takes 0.1 s of processor time, and the rest of ``partition-ops --help`` 0.14 s.
    """

    def __init__(self, default: Found) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Found:
        if instance is None:
            return self.default
        given = vars(instance)[self.name]
        found: Any = tuple(map(_class, given)) if isinstance(given, tuple) else _class(given)
        return cast(Found, found)

    def __set__(self, instance: Any, value: Given) -> None:
        vars(instance)[self.name] = value


def _class(given: Any) -> Any:
    return load(given) if isinstance(given, str) else given


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The declaration of a stage: what the rest of the library needs to know about it."""

    # one word, in which ``-`` stands between words; the verb, the task of the DAG and, unless `tasks` says
    # otherwise, the record have it too
    name: str
    summary: str = ""  # one line for lists of verbs
    # what the stage does, for ``--help``; a stage with a verb of its own describes it there
    description: str = ""
    # its options: a dataclass, or ``module:name`` of it, which is imported when it is read
    config: _Imported[type[StageConfig], type[StageConfig] | str] = _Imported(StageConfig)
    # further dataclasses of options that its verb takes, or their places
    options: _Imported[tuple[type, ...], tuple[type | str, ...]] = _Imported(())
    # ``module:name`` of its function, which is called as ``function(config, source, destination,
    # progress=…)`` with the roots of the graph and of the run, and returns a `StageResult`. ``""`` for a
    # stage that is not one of the job
    run: str = ""
    # further arguments of the function: ``previous``, ``latest`` and ``expectations`` are stores or None,
    # ``kept`` says whether the root of the run stays, ``find_rows`` finds the rows of tables that nodes and
    # edges were made from, ``report`` is called with the result of each of several tasks, ``beside`` with
    # work that no other task needs to have been done, which may run beside the stages that follow, and
    # ``half_edges`` is where ``prepare`` leaves edges for ``partition`` in the same process
    takes: tuple[str, ...] = ()
    # stages that it follows, if the job has them. Others may run at the same time
    after: tuple[str, ...] = ()
    # name of the option that switches it on, of the whole job or of `config`, where a property will do;
    # ``""`` if every job has the stage
    optional: str = ""
    folders: tuple[str, ...] = ()  # names directly below the root of a run that it writes to
    # its kinds of tasks, in their order; by default one with the name of the stage
    tasks: tuple[StageTask, ...] = ()
    # ``module:name`` of a function that returns the `StageEstimate` for its options, the sizes of the graph
    # and the machine. Without one, the stage is not estimated
    cost: str = ""
    remedy: str = ""  # what helps if it takes too much memory, as a sentence
    instead: str = ""  # name of a task that may do the work of all its tasks, and of the stages before it
    pod: bool = True  # whether deploy/helm/values.yaml gives its pods resources of their own
    alone: bool = False  # whether nothing runs beside it, because it measures speed
    # whether it makes the input of the others, and has records of its own in its folder
    before_job: bool = False

    @property
    def all_tasks(self) -> tuple[StageTask, ...]:
        return self.tasks or (StageTask(self.name, seconds=self.name),)

    @property
    def first_record(self) -> str:
        """Name of the first task that leaves more than scratch, whose record has the options of the stage."""
        return next(task.name for task in self.all_tasks if not task.scratch)

    @property
    def has_scratch(self) -> bool:
        return any(task.scratch and not task.passing for task in self.all_tasks)


def load(place: str) -> Callable[..., Any]:
    """Import what ``module:name`` stands for."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def all_stages() -> tuple[Stage, ...]:
    """Return the declarations of all stages, each after those that it follows.

    Raises:
        UsageError: A stage of another package has the name of another stage, or follows a stage that is
            unknown, itself or the last one.
    """
    return _in_order(plugins(ENTRY_POINTS))


def job_stages() -> tuple[Stage, ...]:
    """Return the stages of a job, without those before it."""
    return tuple(stage for stage in all_stages() if not stage.before_job)


def other_stages() -> tuple[Stage, ...]:
    """Return the stages of other packages."""
    return tuple(stage for stage in all_stages() if stage not in _builtin())


def find_stage(name: str) -> Stage:
    """Return the declaration of the stage with a name."""
    return next(stage for stage in all_stages() if stage.name == name)


def stage_of_task(task: str) -> Stage | None:
    """Return the stage that has a task, with or without its number; None for a task of none."""
    names = {task, task.rstrip("0123456789")}
    return next((one for one in all_stages() if names & {kind.name for kind in one.all_tasks}), None)


def side_by_side(stages: Sequence[Stage]) -> Iterator[list[Stage]]:
    """Yield stages in their order: together those that do not follow each other and need not be alone."""
    waiting = [*stages]
    while waiting:
        names = {stage.name for stage in waiting}
        ready = [stage for stage in waiting if names.isdisjoint(stage.after)]
        alone = [stage for stage in ready if stage.alone or stage.has_scratch]
        group = alone[:1] or ready
        yield group
        waiting = [stage for stage in waiting if stage not in group]


def around_alone(stages: Sequence[Stage]) -> Iterator[tuple[list[str], str, list[str]]]:
    """Yield the names of stages that nothing runs beside, each between stages next to it.

    The first list has those after which it begins, the second those that begin after it. All others come
    before the former, or after the latter.
    """
    groups = [*side_by_side(stages)]
    for number, (first, *_) in enumerate(groups):
        if first.alone:
            before, later = [*chain(*groups[:number])], [*chain(*groups[number + 1 :])]
            followed = {name for stage in before for name in stage.after}
            waiting = {stage.name for stage in later}
            yield (
                [stage.name for stage in before if stage.name not in followed],
                first.name,
                [stage.name for stage in later if waiting.isdisjoint(stage.after)],
            )


def written_folders() -> list[str]:
    """Return the names directly below the root of a run that the stages of a job write to, except scratch."""
    written = (folder for stage in job_stages() for folder in stage.folders)
    return list(dict.fromkeys([*written, layout.RECORDS]))


def is_ours(key: str) -> bool:
    """Return whether a key below the root of a run is one that a job writes or removes."""
    return key.split("/")[0] in {*written_folders(), *layout.OURS}


def scratch_of_others() -> tuple[str, ...]:
    """Return the folders of scratch of the stages of other packages; `layout.is_leftover` knows the rest."""
    found = (stage.name for stage in other_stages() if any(task.scratch for task in stage.all_tasks))
    return tuple(f"{layout.SCRATCH}/{name}/" for name in found)


@cache
def _builtin() -> tuple[Stage, ...]:
    package = import_module(ENTRY_POINTS)  # a higher layer, found by its folder as entry points are by name
    names = (f"{ENTRY_POINTS}.{module.name}" for module in iter_modules(package.__path__) if module.ispkg)
    return tuple(import_module(name).STAGE for name in names)


@cache
def _in_order(others: tuple[EntryPoint, ...]) -> tuple[Stage, ...]:
    stages = {stage.name: stage for stage in _builtin()}
    for entry in others:
        found: Stage = entry.load()
        if found.name in stages:
            raise _unusable(found, "another stage has its name")
        stages[found.name] = found
    order: list[Stage] = []
    waiting = {name: {*stage.after} for name, stage in stages.items()}
    waiting[LAST] |= {*stages} - {LAST}
    while waiting:
        done = {stage.name for stage in order}
        ready = [name for name, before in sorted(waiting.items()) if before <= done]
        if not ready:
            name = min(waiting, key=lambda name: stages[name] in _builtin())
            raise _unusable(stages[name], f"it follows {', '.join(sorted(waiting[name] - done))}")
        order.append(stages[ready[0]])
        del waiting[ready[0]]
    return tuple(order)


def _unusable(stage: Stage, found: str) -> UsageError:
    return UsageError(
        f"The stage {stage.name!r} of another package cannot be used",
        found=found,
        expected=f"a name of its own, and stages before {LAST!r} that it follows",
        remedy="Correct its declaration, or uninstall the package.",
    )
