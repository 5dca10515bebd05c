"""Installed distributions, their requirements, and their Python files.

Nothing is imported or run: everything is read from the ``*.dist-info`` folders and the file system.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

COMPILED = frozenset({".so", ".pyd", ".dylib", ".dll"})


@dataclass(frozen=True)
class Installed:
    """An installed distribution.

    Attributes:
        name: Its normalised name.
        version: Its version as its metadata gives it.
        requires: Normalised names of required distributions, and whether only an extra requires them.
        num_files: Number of its files, without compiled Python.
        has_compiled_code: Whether it contains shared libraries.
        modules: Dotted names of the modules among its files.
    """

    name: str
    version: str
    requires: dict[str, bool]
    num_files: int
    has_compiled_code: bool
    modules: tuple[str, ...]


@dataclass(frozen=True)
class SourceFile:
    """The file of one module."""

    module: str
    path: Path
    is_package: bool


@dataclass(frozen=True)
class Environment:
    """The installed distributions, sorted by name, and their files, sorted by module name."""

    distributions: tuple[Installed, ...]
    files: tuple[SourceFile, ...]


def installation_folders() -> list[Path]:
    """Return the folders in which the running interpreter finds distributions, in the order of imports."""
    paths = (Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages"))
    return list(dict.fromkeys(folder.resolve() for folder in paths if folder.is_dir()))


def discover(folders: Sequence[Path], packages: Sequence[str] = ()) -> Environment:
    """Read the distributions in some folders; those in earlier folders hide those in later ones.

    Args:
        folders: Where distributions are installed.
        packages: Names of the distributions to read, in any spelling; all if empty.

    Raises:
        LookupError: A package is in none of the folders; the message says which.
    """
    wanted = {canonicalize_name(name) for name in packages}
    installed: dict[str, Installed] = {}
    files: dict[str, SourceFile] = {}
    for folder in folders:
        for distribution in _distributions(folder):
            name = canonicalize_name(distribution.name)
            if name not in installed and (name in wanted or not wanted):
                paths = _paths(distribution)
                found = sorted(_modules(folder, paths), key=lambda file: (file.module, not file.is_package))
                for file in found:  # a package hides a module of the same name, as in an import
                    files.setdefault(file.module, file)
                installed[name] = _describe(name, distribution, paths, found)
    if missing := sorted(wanted - installed.keys()):
        raise LookupError(f"Not installed in {', '.join(map(str, folders))}: {', '.join(missing)}.")
    return Environment(
        tuple(installed[name] for name in sorted(installed)), tuple(files[name] for name in sorted(files))
    )


def _distributions(folder: Path) -> list[metadata.Distribution]:
    """Return distributions, sorted, because the file system gives versions of one in any order."""
    readable = [found for found in metadata.distributions(path=[str(folder)]) if found.metadata["Name"]]
    return sorted(readable, key=lambda found: (canonicalize_name(found.name), found.version or ""))


def _paths(distribution: metadata.Distribution) -> list[PurePosixPath]:
    """Return its files, without compiled Python, which not every installer records."""
    record = distribution.read_text("RECORD")
    if record is None:
        paths: Iterable[PurePosixPath] = distribution.files or ()
    else:  # many times faster than Distribution.files, which hashes and stats
        paths = (PurePosixPath(row[0]) for row in csv.reader(record.splitlines()) if row)
    return [path for path in paths if path.suffix != ".pyc"]


def _modules(folder: Path, paths: Iterable[PurePosixPath]) -> Iterator[SourceFile]:
    """Return the files that can be imported: below the folder, with identifiers as names."""
    for path in paths:
        parts = path.with_suffix("").parts
        if path.suffix != ".py" or not all(part.isidentifier() for part in parts):
            continue
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        if name and (folder / path).is_file():
            yield SourceFile(name, folder / path, is_package)


def _describe(
    name: str,
    distribution: metadata.Distribution,
    paths: Sequence[PurePosixPath],
    modules: Iterable[SourceFile],
) -> Installed:
    return Installed(
        name=name,
        version=distribution.version or "",
        requires=_requires(distribution),
        num_files=len(paths),
        has_compiled_code=any(path.suffix in COMPILED for path in paths),
        modules=tuple(dict.fromkeys(file.module for file in modules)),
    )


def _requires(distribution: metadata.Distribution) -> dict[str, bool]:
    """Return required names, and whether only an extra requires them, for this platform."""
    extras = distribution.metadata.get_all("Provides-Extra") or []
    required: dict[str, bool] = {}
    for text in distribution.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # old distributions have malformed lines; pip ignores them too
            continue
        marker, name = requirement.marker, canonicalize_name(requirement.name)
        if marker is None or marker.evaluate({"extra": ""}):
            required[name] = False
        elif any(marker.evaluate({"extra": extra}) for extra in extras):
            required.setdefault(name, True)
    return required
