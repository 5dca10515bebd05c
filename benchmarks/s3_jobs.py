"""Compare the job from S3 to S3 with the local job, and count its requests.

    python -m benchmarks.s3_jobs [--scale 0.1] [--rounds 3] [--delay 0.3] [--keys] [--folder DIR]

Both jobs are ``partition-ops run`` on the graph of `benchmarks.mag_graph` with 4 parts, each in its own
process, in turns; the S3 server of `local_stack` runs on the same machine. The output is JSON: the medians of
wall time and processor time of both jobs, the ratio of their wall times, and the number of requests by kind.
``--delay`` adds a job whose requests wait so many seconds each before they are sent, as with a distant
server. ``--keys`` prints the requests of each key.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from benchmarks.processes import Cost, machine, measure, median

PARTS = 4
BUCKET = "bench"
SOURCE = f"s3://{BUCKET}/in"
DELAY, COUNTS = "BENCHMARK_DELAY", "BENCHMARK_COUNTS"  # environment variables of a counted job


@contextmanager
def s3_copy(graph: Path, folder: Path, *, address: str = "127.0.0.1") -> Iterator[dict[str, str]]:
    """Serve a copy of a graph as `SOURCE`, and yield the environment variables to reach it.

    The objects are files of ``folder/data/bench``. Other machines reach it at an address of this one.
    """
    from local_stack.s3_server import REGION, start_s3_server

    key, secret = secrets.token_hex(8), secrets.token_hex(16)
    shutil.copytree(graph, folder / "data" / BUCKET / "in")
    listening = address if address == "127.0.0.1" else "0.0.0.0"
    server, access = start_s3_server(
        folder / "data", folder / "log", access_key=key, secret_key=secret, address=listening
    )
    variables = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": REGION}
    try:
        yield {**variables, "AWS_ENDPOINT_URL": f"http://{address}:{access.port}"}
    finally:
        server.stop()


class RequestCounter:
    """Counts the requests of this process to S3, by operation and key; each may wait before it is sent.

    Args:
        delay: Seconds that each request waits.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.seen: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def counting(self) -> Iterator[Counter[tuple[str, str]]]:
        """Count during a block; every client of the process is counted, each attempt of a request too."""
        from botocore.httpsession import URLLib3Session

        send = URLLib3Session.send

        def counted(session: URLLib3Session, request: Any) -> Any:
            with self._lock:
                self.seen[operation(request.method, request.url)] += 1
            time.sleep(self.delay)
            return send(session, request)

        URLLib3Session.send = counted  # type: ignore[method-assign]
        try:
            yield self.seen
        finally:
            URLLib3Session.send = send  # type: ignore[method-assign]


def operation(method: str, url: str) -> tuple[str, str]:
    """Return what a request does, and the key below the bucket."""
    parts = urlsplit(url)
    query = parse_qs(parts.query, keep_blank_values=True)
    key = unquote(parts.path).removeprefix(f"/{BUCKET}").lstrip("/")
    if "list-type" in query:
        return "LIST", query.get("prefix", [""])[0]
    if "uploads" in query or "uploadId" in query:
        return ("PUT part" if "partNumber" in query else f"{method} multipart"), key
    return method, key


def by_kind(seen: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the number of requests by operation and kind of key, the most frequent first."""
    found: Counter[str] = Counter()
    for (verb, key), count in seen.items():
        found[f"{verb} {kind(key)}"] += count
    return dict(found.most_common())


def kind(key: str) -> str:
    """Return the kind of a key: the first folder of the output, or ``input``; small files by their names."""
    top, _, rest = key.partition("/")
    if top == "in":
        return f"input {rest}" if rest.endswith(".json") or not rest else "input data"
    if "/" in rest:
        return f"{rest.partition('/')[0]}/"
    return re.sub(r"\d+", "N", rest) or "root"


def run_counted(arguments: list[str]) -> int:
    """Run the command line in this process; the requests are written to the file in `COUNTS`."""
    from partition_ops.cli import main

    sys.argv = ["partition-ops", *arguments]
    with RequestCounter(float(os.environ[DELAY])).counting() as seen:
        code = main()
    rows = [[verb, key, count] for (verb, key), count in sorted(seen.items())]
    Path(os.environ[COUNTS]).write_text(json.dumps(rows))
    return code


def job(source: str, output: str, environment: Mapping[str, str], *, counted: bool = False) -> Cost:
    """Run one job, and return its cost."""
    module = ["benchmarks.s3_jobs", "--run"] if counted else ["partition_ops.cli"]
    command = [sys.executable, "-m", *module, "run", source, output, "--num-parts", str(PARTS)]
    return measure(command, environment)


def compare(graph: Path, rounds: int, delay: float) -> dict[str, Any]:
    """Return the figures of both jobs, and the requests of the job on S3."""
    costs: dict[str, list[Cost]] = {"local": [], "S3": []}
    with tempfile.TemporaryDirectory(prefix="s3-jobs-") as name:
        folder = Path(name)
        with s3_copy(graph, folder) as variables:
            counts = folder / "counts.json"

            def counted(seconds: float) -> Cost:
                more = {DELAY: str(seconds), COUNTS: str(counts)}
                return job(SOURCE, f"s3://{BUCKET}/out{seconds}", {**variables, **more}, counted=True)

            counted(0.0)
            seen = {(verb, key): count for verb, key, count in json.loads(counts.read_text())}
            for number in range(rounds):
                costs["local"].append(job(str(graph), str(folder / f"local{number}"), {}))
                costs["S3"].append(job(SOURCE, f"s3://{BUCKET}/out{number}", variables))
                shutil.rmtree(folder / f"local{number}")
            if delay:
                costs[f"S3, {delay:g} s a request"] = [counted(delay)]
    medians = {name: median(found) for name, found in costs.items() if found}
    wall = {name: cost.wall / medians["local"].wall for name, cost in medians.items()} if rounds else {}
    return {
        "machine": machine(),
        "jobs": {name: {"wall": round(c.wall, 2), "cpu": round(c.cpu, 2)} for name, c in medians.items()},
        "relative to local": {name: round(ratio, 2) for name, ratio in wall.items()},
        "requests": sum(seen.values()),
        "by verb": dict(_by_verb(seen).most_common()),
        "by kind": by_kind(seen),
        "by key": {f"{verb} {key}": count for (verb, key), count in sorted(seen.items())},
    }


def _by_verb(seen: Mapping[tuple[str, str], int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (verb, _), count in seen.items():
        found[verb] += count
    return found


def main() -> int:
    if sys.argv[1:2] == ["--run"]:
        return run_counted(sys.argv[2:])
    from benchmarks.jobs import graph_at

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that each request waits")
    parser.add_argument("--keys", action="store_true", help="print the requests of each key")
    parser.add_argument("--folder", type=Path, default=Path(".local/bench"), help="folder of the graphs")
    args = parser.parse_args()
    found = compare(graph_at(args.folder, args.scale), args.rounds, args.delay)
    if not args.keys:
        del found["by key"]
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
