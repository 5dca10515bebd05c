"""The input changes between two stages, which are called one by one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from partition_ops.artifacts import layout
from partition_ops.cli import main
from tests.campaign.children import in_child
from tests.campaign.commands import load
from tests.campaign.frame import Attempt, Case, Defect, Verdict
from tests.damage import cut_end, cut_piece, flip, insert, repeat_piece
from tests.graphs import library
from tests.integration.test_own_roots import write_tables

PAPERS = 8
STAGES = (
    ("validate", "--no-data-docs"),
    ("schema",),
    ("partition", "--num-parts", "2", "--engine", "random"),
    ("convert",),
    ("idmap", "export"),
    ("quality",),
    ("publish",),
)
ENGINE = ("--num-parts", "2", "--engine", "random")
DAMAGE: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(flip, cut_end, cut_piece, insert, repeat_piece),
)


def changed_between(attempt: Attempt) -> Verdict:
    """Change the input between two stages: the output is refused, or is that of the input as it is."""
    load()
    chance, folder = attempt.random, attempt.folder
    tables = chance.random() < 0.3
    if tables:
        write_tables(folder / "in", rows=6)
    else:
        library(papers=PAPERS).write(folder / "in")
    source = folder / "in" / "graph.yaml" if tables else folder / "in"
    at, change = chance.randrange(1, len(STAGES)), chance.choice([_other, _damaged, _removed])
    what = f"{'tables' if tables else 'chunks'}: {change.__name__} before {STAGES[at][0]}"
    shutil.copytree(folder / "in", folder / "before")
    before = folder / "before" / source.relative_to(folder / "in")
    steps = partial(_stages, source, before, folder / "out", at, partial(change, folder / "in", chance))
    good = in_child(steps, what)
    return Verdict.SAME if good else Verdict.REFUSED


def _stages(source: Path, before: Path, out: Path, at: int, change: Callable[[], None]) -> bool:
    """Call the stages, then the whole job; return whether any has published an output."""
    published = False
    for number, (name, *words) in enumerate(STAGES):
        if number == at:
            change()
        words = [*words, str(source)] if name == "idmap" else [str(source), *words]
        if _called(name, *words, "--output", str(out)):
            break
    else:
        published = True
        _check_verified([source, before], out)
    if not _called("run", str(source), str(out), *ENGINE):
        published = True
        _check_verified([source], out)
    elif (out / layout.MANIFEST).exists() and not published:
        raise Defect("the job was refused, and its output is finished")
    return published


def _called(*words: str) -> int:
    """Return the exit code of a command.

    Raises:
        Defect: The code is not one of success, wrong use, bad input or a clear error.
    """
    try:
        code = main(list(words))
    except SystemExit as ended:
        raise Defect(f"{words} is no command: {ended}") from ended
    if code not in (0, 1, 2, 3):
        raise Defect(f"{words} ended with {code}")
    return code


def _check_verified(sources: Sequence[Path], out: Path) -> None:
    """Verify that an output is that of one of the inputs, as they were before or are after the change."""
    codes = [main(["verify", str(source), str(out)]) for source in sources]
    if 0 not in codes:
        raise Defect(f"it was published, and verify ended with {codes}")


def _file(folder: Path, chance: random.Random) -> Path:
    return chance.choice(sorted(path for path in folder.rglob("*") if path.is_file()))


def _other(folder: Path, chance: random.Random) -> None:
    """Replace the files by those of another graph, or the content of a table by other rows."""
    if (folder / "graph.yaml").exists():
        (folder / "u.csv").write_text("id,x\n" + "".join(f"{row},{row}.25\n" for row in range(7)))
        return
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.unlink()
    for path in sorted((path for path in folder.rglob("*")), reverse=True):
        path.rmdir()
    folder.rmdir()
    library(papers=chance.choice([PAPERS, PAPERS + 2]), seed=1).write(folder)


def _damaged(folder: Path, chance: random.Random) -> None:
    path = _file(folder, chance)
    content = bytearray(path.read_bytes())
    chance.choice(DAMAGE)(content, chance)
    path.write_bytes(content)


def _removed(folder: Path, chance: random.Random) -> None:
    _file(folder, chance).unlink()


CASES = [Case("changes between stages", changed_between, 2_000, 5)]
