"""``python -m tests.compose.images``: the images of docker-compose.yaml, made without pulling any.

Stand-ins from a debootstrap base and packages of the distribution get the names that the file asks for;
our own image is built from our own Dockerfile on one of them. Needs root, Podman and debootstrap.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from local_stack.folders import PROJECT
from local_stack.s3_server import rclone
from tests.compose.compose_file import dockerfile_base, image

STAND_INS = Path(__file__).parent / "stand_ins"
BASE = "stand-in-base"
CERTIFICATES = Path("/etc/ssl/certs")


def main(arguments: list[str]) -> None:
    """Make what is missing; our own image is built every time, from what has not changed.

    Args:
        arguments: ``["base"]`` makes the first one only, to see whether containers run at all.
    """
    if not exists(BASE):
        _make_base()
    if arguments == ["base"]:
        return
    names = {
        dockerfile_base(): "python",
        image("postgres"): "postgres",
        image("redis"): "redis",
        image("minio"): "minio",
    }
    for name, folder in names.items():
        if not exists(name):
            _make_stand_in(name, folder)
    with tempfile.TemporaryDirectory() as scratch:
        podman("build", "--tag", image("worker"), *_mounts(Path(scratch)), str(PROJECT))


def podman(*arguments: str, quiet: bool = False) -> bool:
    """Run Podman; whether it went well is given back if it may go wrong, and an error otherwise."""
    sink = subprocess.DEVNULL if quiet else None
    return subprocess.run(["podman", *arguments], stdout=sink, check=not quiet).returncode == 0


def exists(name: str) -> bool:
    return podman("image", "exists", name, quiet=True)


def _make_base() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", scratch], check=True)
        with subprocess.Popen(["tar", "-C", scratch, "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(["podman", "import", "-", BASE], stdin=tar.stdout, check=True)
        if tar.returncode != 0:
            sys.exit("The base image could not be packed")


def _make_stand_in(name: str, folder: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch) / folder
        shutil.copytree(STAND_INS / folder, context)
        if folder == "minio":
            shutil.copy(rclone(), context)
        podman("build", "--tag", name, str(context))


def _mounts(scratch: Path) -> Iterator[str]:
    """Return pip's settings on this machine for the build of the image; the Dockerfile does not have them."""
    settings = list(_pip_settings())
    config = scratch / "pip.conf"
    config.write_text("\n".join(["[global]", *(f"{name} = {value}" for name, value in settings)]))
    named = {CERTIFICATES}  # folders of packages, and files, such as one of constraints
    for _, value in settings:
        for word in value.split():
            path = Path(word.removeprefix("file://"))
            if path.is_absolute() and path.exists():
                # the pages of an index link to files beside their folder
                named.add(path.parent if path.name == "simple" else path)
    yield f"--volume={config}:/etc/pip.conf:ro"
    # what is inside a folder comes with it
    for path in named:
        if not any(other in path.parents for other in named):
            yield f"--volume={path}:{path}:ro"


def _pip_settings() -> Iterator[tuple[str, str]]:
    """Name and value of each of pip's settings here, those of the environment last."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    found: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in ("global", "install", ":env:"):
            found[option] = value.strip("'").replace("\\n", " ")
    yield from found.items()


if __name__ == "__main__":
    main(sys.argv[1:])
