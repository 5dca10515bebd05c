"""Folders that the package has beside its code: ``schemas``, ``dags`` and ``examples``."""

from __future__ import annotations

from pathlib import Path

from partition_ops.errors import ConflictError

_PACKAGE = Path(__file__).parents[1]
LEFT_OUT = ("__pycache__",)


def shipped_folder(name: str) -> Path:
    """Return a folder: in the installed package, or that of a checkout."""
    installed = _PACKAGE / f"_{name}"
    return installed if installed.is_dir() else _PACKAGE.parent / name


def copy_shipped(name: str, target: Path) -> list[Path]:
    """Copy a folder.

    Args:
        name: ``dags``, whose files go into the target, or ``examples``, which becomes a folder in it.
        target: The target; it is created.

    Returns:
        The copies.

    Raises:
        ConflictError: A file is there already, with another content. Nothing is written.
    """
    source = shipped_folder(name)
    into = target if name == "dags" else target / name
    files = sorted(one for one in source.rglob("*") if one.is_file() and not {*LEFT_OUT} & {*one.parts})
    copies = [into / one.relative_to(source) for one in files]
    for one, copy in zip(files, copies, strict=True):
        if copy.exists() and copy.read_bytes() != one.read_bytes():
            raise ConflictError(
                f"{copy} is there already, and differs from the file of this version",
                remedy="Remove it, or choose another folder with --to.",
            )
    for one, copy in zip(files, copies, strict=True):
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(one.read_bytes())
    return copies
