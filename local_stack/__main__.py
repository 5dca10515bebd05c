"""``python -m local_stack demo|up|upload|down|status``."""

from __future__ import annotations

import argparse
import io
import signal
import sys
from pathlib import Path

from local_stack.demo import DemoOptions, demo
from local_stack.example_graph import EXAMPLES, PACKAGES
from local_stack.folders import Folders
from local_stack.processes import StackError
from local_stack.stack import down, status, up
from local_stack.supervisor import supervise
from local_stack.upload import upload


def main(arguments: list[str] | None = None) -> int:
    """Run one command, and print errors of the stack without a traceback."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # show progress in a pipe too
    folders = Folders(Path(options.folder).absolute()) if options.folder else Folders()
    if options.command == "supervise":
        return supervise(folders, options.owner, options.lease)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        return _run(options, folders)
    except StackError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; all services have been stopped.", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace, folders: Folders) -> int:
    if options.command == "demo":
        example = EXAMPLES[options.graph]
        return demo(folders, DemoOptions(example=example, num_parts=options.num_parts, engine=options.engine))
    if options.command == "upload":
        return upload(folders, options.graph)
    return {"up": up, "down": down, "status": status}[options.command](folders)


def _named(text: str) -> Path:
    """Return a path; an empty one would be the folder of the project, with all that is installed there."""
    if not text:
        raise argparse.ArgumentTypeError("there is no folder; call 'make upload GRAPH=folder'")
    return Path(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local_stack", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    supervisor = commands.add_parser("supervise", help="internal: used by the other commands")
    supervisor.add_argument("folder")
    supervisor.add_argument("owner", choices=["demo", "up"])
    supervisor.add_argument("lease", nargs="?", type=int)
    for name, what in {
        "demo": "partition a real graph through Airflow and S3, then stop all services",
        "up": "start Airflow and the S3 server, and keep them running",
        "upload": "copy a graph to the S3 server that 'up' started",
        "down": "stop what 'up' started",
        "status": "show which services run, and their addresses",
    }.items():
        command = commands.add_parser(name, help=what)
        command.add_argument("--folder", help="folder for all files, instead of .local")
        if name == "upload":
            command.add_argument("graph", type=_named, help="folder with metadata.json or graph.yaml")
        if name == "demo":
            command.add_argument("--graph", choices=EXAMPLES, default=PACKAGES.graph_name)
            command.add_argument("--num-parts", type=int, default=4)
            command.add_argument("--engine", default="auto")
    return parser


if __name__ == "__main__":
    sys.exit(main())
