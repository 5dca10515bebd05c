"""The command line: ``partition-ops VERB``.

Exit codes: 0 success, 2 wrong use, 3 bad input, 1 the rest; 130 interrupted, 129 and 143 ended by SIGHUP or
SIGTERM. Signals are looked after from the first moment: next to nothing is imported before.
"""

from __future__ import annotations

import gc
import sys

from partition_ops.system.signals import Ending

TYPE_CHECKING = False  # that of typing takes milliseconds to import
if TYPE_CHECKING:
    from collections.abc import Sequence

# made between two looks for garbage: imports make many, and looking takes a tenth of their time
OBJECTS = 100_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and give back the exit code."""
    words = sys.argv[1:] if argv is None else [*argv]
    gc.set_threshold(OBJECTS)
    with Ending(as_json="--json" in words) as ending:
        try:
            from partition_ops.cli.dispatch import run_verb

            ending.unwinds()
            code = run_verb(words)
        except KeyboardInterrupt:
            return ending.ended()
        return ending.ended() if code and ending.signal else code
