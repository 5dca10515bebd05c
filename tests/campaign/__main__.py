"""``python -m tests.campaign``: do harm to runs many times, and print a table of what came of it."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from pathlib import Path

from tests.campaign.frame import DEFECT, all_cases, missing_cases, run_campaign, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--only", default="", help="Only cases with this text in their name.")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="Default: another one each time.")
    parser.add_argument("--attempt", type=int, help="Only this attempt of each case.")
    parser.add_argument("--share", type=float, default=1.0, help="Share of the attempts. Default: 1.")
    parser.add_argument("--minutes", type=float, default=60, help="Begin no attempt after this. Default: 60.")
    parser.add_argument("--processes", type=int, default=2, help="Attempts at a time. Default: 2.")
    parser.add_argument(
        "--journal",
        type=Path,
        help="File that keeps the results. A later call with the same seed goes on where the last one "
        "ended, and the table has the results of all calls.",
    )
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the graphs are tiny, and threads wait for each other
    chosen = [case for case in all_cases().values() if arguments.only in case.name]
    without = missing_cases(chosen)
    print(f"seed {arguments.seed}", flush=True)
    results = run_campaign(
        [case for case in chosen if case.name not in without],
        arguments.seed,
        lambda case: (
            range(max(1, round(case.number * arguments.share)))
            if arguments.attempt is None
            else [arguments.attempt]
        ),
        processes=arguments.processes,
        minutes=arguments.minutes,
        journal=arguments.journal,
    )
    print("\n".join(["", *table(results)]))
    return 1 if not results or any(result.verdict == DEFECT for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
