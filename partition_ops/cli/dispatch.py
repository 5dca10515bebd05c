"""From the words of the command line to a verb, and from its errors to exit codes.

Each verb is a module of `partition_ops.cli.verbs`; what is heavy is imported when a verb runs, so that
``--help`` is quick.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from partition_ops import __version__
from partition_ops.cli.console import Console
from partition_ops.cli.verb_parser import VerbParser
from partition_ops.cli.verbs import COMMANDS
from partition_ops.errors import PartitionOpsError, StorageError
from partition_ops.storage.local_store import PARTIAL
from partition_ops.system.temporary_folders import check_tmpdir, remove_abandoned

# what the system refuses because of what it has or allows, and not because we asked wrongly
REFUSED = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    *(errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG, errno.EIO, errno.ESTALE, errno.ENOMEM),
}

DESCRIPTION = """\
Validate, partition and convert heterogeneous graphs for DGL's distributed training.

A graph is a folder in DGL's chunked graph format, with metadata.json at its root, on a local path or
s3://bucket/prefix. Credentials for S3 come from the environment (AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_DEFAULT_REGION) or any other place where boto3 looks."""

EPILOG = """\
examples:
  partition-ops run graphs/mag out/mag --num-parts 4
  partition-ops run s3://data/mag s3://data/out/mag --num-parts 16 --balance edges --seed 7
  partition-ops validate graphs/mag
  partition-ops verify graphs/mag out/mag

exit codes: 0 success, 2 wrong use, 3 bad input, 130 interrupted (129 and 143: ended by SIGHUP or SIGTERM),
1 anything else"""


def build_parser() -> argparse.ArgumentParser:
    """The parser with every verb."""
    parser = VerbParser(
        prog="partition-ops",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    _add_verbs(parser, COMMANDS)
    return parser


def _add_verbs(parser: argparse.ArgumentParser, commands: Iterable[Any]) -> None:
    """A parser for each command; one with ``COMMANDS`` of its own takes a verb once more."""
    verbs = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    for command in commands:
        verb = verbs.add_parser(
            command.NAME,
            help=command.SUMMARY,
            description=command.DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if hasattr(command, "COMMANDS"):
            _add_verbs(verb, command.COMMANDS)
            continue
        command.add_arguments(verb)
        _add_common_arguments(verb)
        verb._negative_number_matcher = re.compile(r"-\d")  # '-5M' is a value: what is wrong with it is said
        verb.set_defaults(execute=command.execute)


def _add_common_arguments(verb: argparse.ArgumentParser) -> None:
    common = verb.add_argument_group("common options")
    common.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    common.add_argument(
        "--endpoint-url", metavar="URL", help="S3 server, where it is not AWS (or set AWS_ENDPOINT_URL)"
    )
    common.add_argument("--verbose", action="store_true", help="print the log and whole tracebacks")


def _with_default_verb(words: Sequence[str]) -> list[str]:
    """``idmap INPUT …``, as every stage is called, means ``idmap export INPUT …``."""
    for command in COMMANDS:
        verbs = [inner.NAME for inner in getattr(command, "COMMANDS", ())]
        asked = list(words[:1]) == [command.NAME] and verbs and len(words) > 1
        if asked and words[1] not in verbs and not words[1].startswith("-"):
            return [words[0], command.DEFAULT, *words[1:]]
    return list(words)


def run_verb(words: Sequence[str]) -> int:
    """Run a verb and give back the exit code; a signal that ends it is left to the caller."""
    arguments = build_parser().parse_args(_with_default_verb(words))
    level = logging.INFO if arguments.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr)
    console = Console(as_json=arguments.json)
    try:
        remove_abandoned()  # which may make room
        check_tmpdir()
        console.result(arguments.execute(arguments, console))
        return 0
    except PartitionOpsError as error:
        return _told(error, console, arguments)
    except BrokenPipeError:
        # whoever read our output has gone: keep Python from complaining about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in REFUSED:
            return _defect(error, console, arguments)
        return _told(_refusal(error), console, arguments)
    except MemoryError:
        console.failure("memory ran out; 'partition-ops estimate' says what a job takes")
        return 1
    except Exception as error:
        return _defect(error, console, arguments)


def _told(error: PartitionOpsError, console: Console, arguments: argparse.Namespace) -> int:
    console.error(error)
    if arguments.verbose:
        traceback.print_exc()
    return error.exit_code


def _refusal(error: OSError) -> StorageError:
    path = Path(error.filename) if isinstance(error.filename, str) else None
    if path is not None and path.name.startswith(PARTIAL):  # not a name that anybody knows
        path = path.parent
    where = "" if path is None else f" {path}"
    return StorageError(
        f"The system refused{where}: {error.strerror}",
        remedy="Check the path, its permissions and the room on its disk, and repeat the call.",
    )


def _defect(error: Exception, console: Console, arguments: argparse.Namespace) -> int:
    console.failure(f"unexpected {type(error).__name__}: {error}")
    if arguments.verbose:
        traceback.print_exc()
    else:
        console.note("This is a defect of ours: please report it with what --verbose prints.")
    return 1
