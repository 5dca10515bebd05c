"""Train on real DGL servers and trainers, one of each on every machine of a `benchmarks.machines` network.

`benchmarks.training_traffic` makes the network, and has a `Host` for the sessions, which imports DGL once.
The trainers run GraphSAGE over two layers, and write their figures to files beside ``session.json``.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machines import Network, transferred
from benchmarks.processes import fork
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.cached_rows import attach_cache

RPC_PORT, GLOO_PORT = 30050, 30060
RATE, SEED = 0.01, 7  # learning rate; seed of the model and of the order of the batches
LEAST_STEPS, LEAST_EPOCHS = 20, 2
UNLIMITED = "10gbit"
DONE = "done\n"


@dataclass(frozen=True)
class Session:
    """One training run.

    Attributes:
        network: Name of the network.
        machines: Number of machines, which is that of the partitions.
        config: Path of the partition config.
        graph: Name of the graph.
        trained: Node type with ``train_mask``, ``test_mask`` and ``label``.
        classes: Number of labels.
        rates: Rates of the links; the model is trained anew for each.
        cache: Root of the output, if the trainers are to train again with its cached rows; else empty.
        fanouts: Edges of each type that are sampled for a node, layer by layer.
        batch_size: Seeds of a batch.
        hidden: Width of the hidden layer.
        graphbolt: Whether servers sample with GraphBolt, which DGL 2.1 does.
        dilation: Seconds here that count as one; links are slower by this factor.
    """

    network: str
    machines: int
    config: str
    graph: str
    trained: str
    classes: int
    rates: tuple[str, ...]
    cache: str = ""
    fanouts: tuple[int, ...] = (10, 10)
    batch_size: int = 1024
    hidden: int = 16
    graphbolt: bool = False
    dilation: float = 1

    @property
    def options(self) -> dict[str, bool]:
        """What ``dgl.distributed.initialize`` gets; DGL 1.1.3 does not know the option."""
        return {"use_graphbolt": True} if self.graphbolt else {}

    @classmethod
    def read(cls, path: Path) -> Session:
        return cls(**json.loads(path.read_text()))


class Host:
    """A process in which one session after the other runs."""

    def __init__(self, python: str = sys.executable) -> None:
        """Start nothing yet; ``python`` is that of the environment with DGL."""
        self._python = python
        self._process: subprocess.Popen[str] | None = None

    def run(self, session: Session, folder: Path, seconds: float) -> list[dict[str, Any]]:
        """Run a session in a new folder; return the figures of each trainer.

        Raises:
            RuntimeError: It has failed or takes longer; all its processes are ended.
        """
        folder.mkdir()
        path = folder / "session.json"
        path.write_text(json.dumps(asdict(session)))
        if self._process is None:
            command = [self._python, "-m", "benchmarks.training_session"]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},  # OpenMP reads it when it is loaded
            )
        print(path, file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready or self._process.stdout.readline() != DONE:
            self.close()
            log = (folder / "log.txt").read_text(errors="replace")
            raise RuntimeError(f"the session has failed, or not ended in {seconds:.0f} s\n{log[-3000:]}")
        found = (folder / f"trainer{machine}.json" for machine in range(session.machines))
        return [json.loads(one.read_text()) for one in found]

    def close(self) -> None:
        """End the process and all that it has started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


def serve_sessions() -> None:
    """Run the sessions whose paths are on the lines of stdin, and write a line after each."""
    import_dgl()
    import torch._dynamo  # noqa: F401  which optimizers import

    lines = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        log = os.open(path.parent / "log.txt", os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)
        run_session(path)
        lines.write(DONE)
        lines.flush()


def run_session(path: Path) -> None:
    """Start every machine of a session, and wait for all of them.

    Raises:
        RuntimeError: One has failed.
    """
    session = Session.read(path)
    addresses = Network(session.network, session.machines).address
    lines = [f"{addresses(machine)} {RPC_PORT}\n" for machine in range(session.machines)]
    (path.parent / "ip_config.txt").write_text("".join(lines))
    os.environ |= _variables(session, path.parent, addresses(0))
    for machine in range(session.machines):
        fork(partial(be_machine, session, path, machine))
    for _ in range(session.machines):
        _, status = os.wait()
        if status:
            raise RuntimeError(f"a machine ended with {os.waitstatus_to_exitcode(status)}")


def _variables(session: Session, folder: Path, first: str) -> dict[str, str]:
    return {
        "DGLBACKEND": "pytorch",
        "DGL_DIST_MODE": "distributed",
        "DGL_IP_CONFIG": str(folder / "ip_config.txt"),
        "DGL_CONF_PATH": session.config,
        "DGL_GRAPH_FORMAT": "csc",
        "DGL_NUM_SERVER": "1",
        "DGL_NUM_CLIENT": str(session.machines),
        "DGL_NUM_SAMPLER": "0",
        "GLOO_SOCKET_IFNAME": "eth0",
        "MASTER_ADDR": first,
        "MASTER_PORT": str(GLOO_PORT),
        "WORLD_SIZE": str(session.machines),
    }


def be_machine(session: Session, path: Path, machine: int) -> None:
    """Run the server and the trainer of a machine."""
    network = Network(session.network, session.machines)
    network.enter(machine)
    os.environ |= {"RANK": str(machine), "DGL_SERVER_ID": str(machine)}
    server = fork(partial(serve, session))
    try:
        train(session, path, network, machine)
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # DGL's own way out waits for the other trainers
    _, status = os.waitpid(server, 0)
    if status:
        raise RuntimeError(f"the server ended with {os.waitstatus_to_exitcode(status)}")


def serve(session: Session) -> None:
    import dgl

    os.environ["DGL_ROLE"] = "server"
    dgl.distributed.initialize(os.environ["DGL_IP_CONFIG"], **session.options)


def train(session: Session, path: Path, network: Network, machine: int) -> None:
    """Train once for each rate, and write the figures of this trainer."""
    import dgl
    import torch

    network.limit(machine, UNLIMITED)
    dgl.distributed.initialize(os.environ["DGL_IP_CONFIG"], **session.options)
    torch.distributed.init_process_group("gloo")
    trainer = Trainer(session, dgl.distributed.DistGraph(session.graph, part_config=session.config))
    result: dict[str, Any] = {"seeds": len(trainer.seeds), "steps": trainer.steps, "readers": []}
    for cached in (False, True) if session.cache else (False,):
        if cached:
            trainer.cache = list(attach_cache(trainer.graph, session.cache).values())
        phases = {}
        for rate in session.rates:
            trainer.start()
            network.limit(machine, rate, session.dilation)
            phases[rate] = [trainer.epoch() for _ in range(trainer.epochs)]
            network.limit(machine, UNLIMITED)
            torch.distributed.barrier()
        result["readers"].append({"phases": phases, "accuracy": trainer.accuracy()})
    (path.parent / f"trainer{machine}.json").write_text(json.dumps(result))
    torch.distributed.barrier()
    dgl.distributed.exit_client()


class Trainer:
    """The trainer of this machine."""

    def __init__(self, session: Session, graph: Any) -> None:
        import dgl
        import torch

        self.torch, self.dgl, self.session, self.graph = torch, dgl, session, graph
        self.book = graph.get_partition_book()
        self.data = graph.nodes[session.trained].data
        split = dgl.distributed.node_split
        self.seeds, self.tests = (
            split(self.data[mask], self.book, ntype=session.trained, force_even=True)
            for mask in ("train_mask", "test_mask")
        )
        self.cache: list[Any] = []
        self.steps = int(self._most(-(-len(self.seeds) // session.batch_size)))
        self.epochs = max(LEAST_EPOCHS, -(-LEAST_STEPS // max(self.steps, 1)))

    def start(self) -> None:
        """Begin with a new model."""
        self.torch.manual_seed(SEED)
        width = self.graph.nodes[self.session.trained].data["feat"].shape[1]
        self.model = sage(self.graph, width, self.session)
        self.optimizer = self.torch.optim.Adam(self.model.parameters(), lr=RATE)
        self.torch.manual_seed(SEED + self.torch.distributed.get_rank())

    def epoch(self) -> dict[str, Any]:
        """Train over an epoch; return seconds until all have finished, processor seconds, bytes and rows."""
        self.torch.distributed.barrier()
        began, used, (received, sent) = time.monotonic(), time.process_time(), transferred()
        batches, rows, hits = self.batches(self.seeds, shuffle=True), 0, self._hits()
        for _ in range(self.steps):
            loss = self.torch.zeros((), requires_grad=True)
            batch = next(batches, None)
            if batch is not None:
                remote, inputs, labels, blocks = batch
                rows += remote
                loss = self.torch.nn.functional.cross_entropy(self.model(blocks, inputs), labels)
            self._learn(loss)
        self.torch.distributed.barrier()
        now = transferred()
        return {
            "seconds": (time.monotonic() - began) / self.session.dilation,
            "processor_seconds": time.process_time() - used,
            "received_bytes": now[0] - received,
            "sent_bytes": now[1] - sent,
            "remote_rows": rows - self._hits() + hits,
        }

    def batches(self, seeds: Any, *, shuffle: bool) -> Iterator[tuple[int, dict[str, Any], Any, Any]]:
        """Yield the distinct remote rows of each batch, its features and labels, and its blocks."""
        trained, own = self.session.trained, self.book.partid
        sampler = self.dgl.dataloading.NeighborSampler(list(self.session.fanouts))
        chosen = {trained: seeds} if len(self.graph.canonical_etypes) > 1 else seeds
        loader = self.dgl.dataloading.DistNodeDataLoader(
            self.graph, chosen, sampler, batch_size=self.session.batch_size, shuffle=shuffle
        )
        for inputs, outputs, blocks in loader if len(seeds) else ():
            by_type = inputs if isinstance(inputs, dict) else {self.graph.ntypes[0]: inputs}
            targets = outputs[trained] if isinstance(outputs, dict) else outputs
            some = {ntype: ids for ntype, ids in by_type.items() if len(ids)}
            remote = sum(int((self.book.nid2partid(ids, t) != own).sum()) for t, ids in some.items())
            rows = {ntype: self.graph.nodes[ntype].data["feat"][ids] for ntype, ids in some.items()}
            yield remote, rows, self.data["label"][targets], blocks

    def accuracy(self) -> float:
        """Return the share of all test nodes whose label the model predicts."""
        right = 0
        with self.torch.no_grad():
            for _, inputs, labels, blocks in self.batches(self.tests, shuffle=False):
                right += int((self.model(blocks, inputs).argmax(1) == labels).sum())
        counts = self.torch.tensor([right, len(self.tests)])
        self.torch.distributed.all_reduce(counts)
        return float(counts[0] / counts[1])

    def _hits(self) -> int:
        return sum(rows.found for rows in self.cache)

    def _learn(self, loss: Any) -> None:
        """Take a step along the mean gradient of all trainers."""
        self.optimizer.zero_grad()
        if loss.grad_fn is not None:
            loss.backward()
        parameters = list(self.model.parameters())
        grads = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in parameters]
        flat = self.torch.cat([grad.flatten() for grad in grads])
        self.torch.distributed.all_reduce(flat)
        for p, mean in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            p.grad = mean.reshape(p.shape) / self.session.machines
        self.optimizer.step()

    def _most(self, value: int) -> int:
        found = self.torch.tensor(value)
        self.torch.distributed.all_reduce(found, self.torch.distributed.ReduceOp.MAX)
        return int(found)


def sage(graph: Any, width: int, session: Session) -> Any:
    """Return GraphSAGE with mean aggregation, and weights of its own for each edge type."""
    import dgl
    import torch

    class Layer(torch.nn.Module):
        def __init__(self, width: int, out: int) -> None:
            super().__init__()
            self.own = torch.nn.ModuleDict({t: torch.nn.Linear(width, out) for t in graph.ntypes})
            names = ["|".join(etype) for etype in graph.canonical_etypes]
            self.neighbours = torch.nn.ModuleDict({n: torch.nn.Linear(width, out, bias=False) for n in names})

        def forward(self, block: Any, inputs: dict[str, Any]) -> dict[str, Any]:
            etypes = graph.canonical_etypes
            if len(etypes) == 1:  # blocks of such graphs have no names of types
                ((name, rows),) = inputs.items()
                found = {name: self.own[name](rows[: block.num_dst_nodes()])}
                pairs = [(etypes[0], block)]
            else:
                found = {t: self.own[t](rows[: block.num_dst_nodes(t)]) for t, rows in inputs.items()}
                pairs = [(etype, block[etype]) for etype in block.canonical_etypes]
            for etype, edges in pairs:
                if edges.num_edges():
                    mean = dgl.ops.copy_u_mean(edges, inputs[etype[0]])
                    found[etype[2]] = found[etype[2]] + self.neighbours["|".join(etype)](mean)
            return found

    class Sage(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [width, *[session.hidden] * (len(session.fanouts) - 1), session.classes]
            self.layers = torch.nn.ModuleList(map(Layer, widths, widths[1:]))

        def forward(self, blocks: Any, rows: dict[str, Any]) -> Any:
            for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
                rows = layer(block, rows)
                if number + 1 < len(self.layers):
                    rows = {ntype: one.relu() for ntype, one in rows.items()}
            return rows[session.trained]

    return Sage()


if __name__ == "__main__":
    serve_sessions()
