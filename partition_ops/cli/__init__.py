"""The command line: ``partition-ops VERB``.

Exit codes: 0 success, 2 wrong use, 3 bad input, 1 other errors; 130 interrupted, 129 and 143 ended by SIGHUP
or SIGTERM. Signals are handled from the start, so the verbs are imported only after the handlers are set.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from partition_ops.system.signals import SignalHandler

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code."""
    words = sys.argv[1:] if argv is None else [*argv]
    with SignalHandler(as_json="--json" in words) as signals:
        try:
            from partition_ops.cli.dispatch import run_verb

            signals.unwind_on_signal()
            code = run_verb(words)
        except KeyboardInterrupt:
            return signals.finish()
        return signals.finish() if code and signals.received else code
