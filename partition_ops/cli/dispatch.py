"""Parse the command line, run a verb, and turn its errors into messages and exit codes.

Each verb is a module of `partition_ops.cli.verbs`. ``--help`` is quick, because the module of a verb is
imported when its arguments are parsed, and what is heavy when the verb runs.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NoReturn

from partition_ops import __version__
from partition_ops.cli.console import Console, LogFormatter
from partition_ops.cli.verb import ListedVerb
from partition_ops.cli.verbs import VERBS
from partition_ops.errors import PartitionOpsError, StorageError
from partition_ops.options.arguments import add_options, check_arguments, take_options_once
from partition_ops.system.signals import clean_up

# what the system refuses because of what it has or allows, and not because we asked wrongly
REFUSED = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    *(errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG, errno.EIO, errno.ESTALE, errno.ENOMEM),
}

DESCRIPTION = """\
Validate, partition and convert heterogeneous graphs for DGL's distributed training.

A graph is a folder in DGL's chunked graph format, with metadata.json at its root, on a local path or
s3://bucket/prefix. Credentials for S3 come from the environment (AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_DEFAULT_REGION) or any other source that boto3 knows."""

EPILOG = """\
examples:
  partition-ops run graphs/mag out/mag --num-parts 4
  partition-ops run s3://data/mag s3://data/out/mag --num-parts 16 --balance edges --seed 7
  partition-ops validate graphs/mag
  partition-ops verify graphs/mag out/mag

exit codes: 0 success, 2 wrong use, 3 bad input, 130 interrupted (129 and 143: ended by SIGHUP or SIGTERM),
1 anything else"""


class VerbParser(argparse.ArgumentParser):
    """A parser whose errors show the usage of the verb, and the option that an unknown one may mean."""

    _words: Sequence[str] = ()
    add_later: Callable[[], None] | None = None  # adds the arguments once they are needed

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        take_options_once(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._words = sys.argv[1:] if args is None else [*args]
        self._complete()
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def format_help(self) -> str:
        self._complete()
        return super().format_help()

    def _complete(self) -> None:
        if self.add_later is not None:
            self.add_later()
            self.add_later = None

    def error(self, message: str) -> NoReturn:
        super().error("\n  ".join([message, *self._suggestions()]))

    def _suggestions(self) -> list[str]:
        """Suggest known options for unknown ones; a verb that takes another verb leaves that to it."""
        if self._subparsers is not None:
            return []
        from difflib import get_close_matches

        known = [*self._option_string_actions]
        options = [word.partition("=")[0] for word in self._words if word.startswith("--") and word != "--"]
        nearest = {word: get_close_matches(word, known, n=1) for word in options if word not in known}
        return [f"there is no {word}: did you mean {near[0]}?" for word, near in nearest.items() if near]


def build_parser() -> VerbParser:
    """Return the parser with every verb; that of a verb gets its arguments when it needs them."""
    parser = VerbParser(
        prog="partition-ops",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    _add_verbs(parser, VERBS)
    return parser


def _add_verbs(parser: VerbParser, verbs: Iterable[ListedVerb]) -> None:
    """Add a parser for each verb, without its arguments."""
    parsers = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    for listed in verbs:
        own = parsers.add_parser(
            listed.name,
            help=listed.summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        own.add_later = partial(_add_arguments, own, listed)


def _add_arguments(parser: VerbParser, listed: ListedVerb) -> None:
    """Add the arguments of a verb to its parser; one with ``verbs`` takes another verb."""
    verb = listed.verb
    parser.description = verb.description
    if verb.verbs:
        _add_verbs(parser, verb.verbs)
        return
    verb.add_arguments(parser)
    add_options(parser, *verb.options, defaults=verb.defaults, only=verb.only)
    _add_common_arguments(parser)
    # '-5M' is a value, with an error of its own, and not an unknown option
    parser._negative_number_matcher = re.compile(r"-\d")
    parser.set_defaults(execute=verb.execute)


def _add_common_arguments(verb: argparse.ArgumentParser) -> None:
    common = verb.add_argument_group("common options")
    common.add_argument("--json", action="store_true", help="Print one JSON document instead of text.")
    common.add_argument(
        "--endpoint-url", metavar="URL", help="S3 server, if it is not AWS. Default: AWS_ENDPOINT_URL."
    )
    common.add_argument("--verbose", action="store_true", help="Print the log and whole tracebacks.")


def _with_default_verb(words: Sequence[str]) -> list[str]:
    """Insert the default verb: ``idmap INPUT …`` means ``idmap export INPUT …``."""
    listed = next((one for one in VERBS if [one.name] == list(words[:1])), None)
    if listed is None or len(words) == 1 or words[1].startswith("-"):
        return list(words)
    inner = [one.name for one in listed.verb.verbs]
    return [words[0], listed.verb.default, *words[1:]] if inner and words[1] not in inner else list(words)


def run_verb(words: Sequence[str], *, alone: bool = False) -> int:
    """Run a verb and return the exit code; the caller handles signals.

    Args:
        words: The command line.
        alone: Whether this process does nothing else, so that its memory can be tuned for that.
    """
    arguments = build_parser().parse_args(_with_default_verb(words))
    from partition_ops.system.temporary_folders import check_tmpdir, remove_abandoned

    level = logging.INFO if arguments.verbose else logging.WARNING
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(LogFormatter("%(message)s"))
    logging.basicConfig(level=level, handlers=[log])
    console = Console(as_json=arguments.json)
    try:
        check_arguments(arguments)
        remove_abandoned()  # may free disk space
        check_tmpdir()
        if alone:
            from partition_ops.system.memory import keep_freed_memory

            keep_freed_memory(getattr(arguments, "memory", None))
        with _bounded(arguments, console):
            console.result(arguments.execute(arguments, console))
        return 0
    except PartitionOpsError as error:
        return _report(error, console, arguments)
    except BrokenPipeError:
        # the reader of our output has gone: keep Python from reporting that at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in REFUSED:
            return _defect(error, console, arguments)
        return _report(_refusal(error), console, arguments)
    except MemoryError:
        console.failure("memory ran out; 'partition-ops estimate' says what a job takes")
        return 1
    except Exception as error:
        return _defect(error, console, arguments)


def _bounded(arguments: argparse.Namespace, console: Console) -> AbstractContextManager[None]:
    """Return a context that bounds the memory of this process and its children by ``--memory``."""
    others = getattr(arguments, "workers", None)  # then it is the memory of each of them
    if getattr(arguments, "memory", None) is None or others:
        return nullcontext()
    from partition_ops.system.memory_guard import bounded_memory

    return bounded_memory(arguments.memory, give_up=partial(_give_up, console))


def _give_up(console: Console, error: PartitionOpsError) -> NoReturn:
    """End the process at once, because compiled code keeps its main thread from doing so."""
    try:
        clean_up(lambda: console.error(error))
    finally:
        os._exit(error.exit_code)


def _report(error: PartitionOpsError, console: Console, arguments: argparse.Namespace) -> int:
    console.error(error)
    if arguments.verbose:
        console.traceback()
    return error.exit_code


def _refusal(error: OSError) -> StorageError:
    import shutil
    import tempfile
    from pathlib import Path

    from partition_ops.storage.local_store import PARTIAL

    path = Path(error.filename) if isinstance(error.filename, str) else None
    if path is not None and path.name.startswith(PARTIAL):  # users do not know this name
        path = path.parent
    if path is None and error.errno in (errno.ENOSPC, errno.EDQUOT):  # a write to an open file
        path = Path(tempfile.gettempdir())
        return StorageError(
            f"A disk is full: {error.strerror}",
            found=f"{shutil.disk_usage(path).free >> 20:,} MiB free for temporary files in {path}",
            remedy="Free some space there and on the disk of the output, or set TMPDIR to another folder, and"
            " run the command again.",
        )
    where = "" if path is None else f" {path}"
    return StorageError(
        f"The system refused{where}: {error.strerror}",
        remedy="Check the path, its permissions and the room on its disk, and run the command again.",
    )


def _defect(error: Exception, console: Console, arguments: argparse.Namespace) -> int:
    console.failure(f"unexpected {type(error).__name__}: {error}")
    if arguments.verbose:
        console.traceback()
    else:
        console.last_calls(error)  # it may not happen again
        console.note("This is a defect of ours: please report it, best with what --verbose prints.")
    return 1
