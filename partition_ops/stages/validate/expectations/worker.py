"""The child process: it imports Great Expectations, then answers requests until its parent ends.

Started as ``python -m``, with the process ID of the parent as its argument. A request and an answer are
one line of JSON each. The first request brings the suites and is answered when they are accepted; every
other one brings tables and is answered with outcomes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Message = dict[str, Any]


def main() -> None:
    """Answer requests."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, and the parent ends us
    answer = take_stdout()
    requests: SimpleQueue[Message] = SimpleQueue()
    parent = int(sys.argv[1])
    threading.Thread(target=read_requests, args=(requests, parent), daemon=True).start()
    serve(requests, answer)


def take_stdout() -> Callable[[Message], None]:
    """Reserve standard output for answers; everything that is printed goes to standard error."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(message: Message) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    return answer


def read_requests(requests: SimpleQueue[Message], parent: int) -> None:
    """Fill the queue; end this process when the parent has ended, even if it was killed."""
    unread = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], 1.0)[0]:
            continue
        data = os.read(0, 1 << 16)
        if not data:
            break
        *lines, unread = (unread + data).split(b"\n")
        for line in lines:
            requests.put(json.loads(line))
    os._exit(0)


def serve(requests: SimpleQueue[Message], answer: Callable[[Message], None]) -> None:
    """Import Great Expectations and answer requests, until a suite is rejected."""
    from partition_ops.stages.validate.expectations.checkpoint import RejectedError, accept, validate

    try:
        suites = accept(requests.get()["suites"])
        answer({"ready": True})
        while True:
            request = requests.get()
            answer({"outcomes": validate(suites, request["tables"], request["folder"])})
    except RejectedError as error:
        answer({"rejected": error.details})


if __name__ == "__main__":
    main()
