"""A StatsD server that keeps everything it is sent."""

from __future__ import annotations

import socket
import threading
from collections import defaultdict


class StatsdServer:
    """Listens on a free port of this machine.

    Attributes:
        values: By the metric's name, in the order in which they came.
    """

    def __init__(self) -> None:
        self.values: defaultdict[str, list[float]] = defaultdict(list)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def settings(self) -> dict[str, str]:
        """Return the environment variables that make Airflow send metrics to it."""
        port = str(self._socket.getsockname()[1])
        return {"AIRFLOW__METRICS__STATSD_ON": "True", "AIRFLOW__METRICS__STATSD_PORT": port}

    def _listen(self) -> None:
        while True:
            for line in self._socket.recv(65536).decode().splitlines():
                name, _, rest = line.partition(":")
                self.values[name].append(float(rest.split("|")[0]))
