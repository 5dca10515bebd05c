"""Real graphs for `benchmarks.real_graphs`, made from what a Debian machine and this environment have.

Each builder returns a graph without features. ``python -m benchmarks.real_graphs --keep`` writes those in
`KEPT` to ``benchmarks/real_graphs/``, so that they are the same on every machine.
"""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Pairs = npt.NDArray[np.int64]
FOLDER = Path(__file__).parent / "real_graphs"
KEPT = ("history", "objects", "coauthors", "names", "files", "includes", "roads", "binaries")
MOST_OF_A_FILE = 40  # authors of a file who count as acquainted; the newest ones
MOST_TEXT = 3000  # characters of a manual page whose words count
MOST_FILES = 50  # that a commit changes; larger ones are renames and formatting


@dataclass
class RealGraph:
    """Nodes by type, and edges as pairs of numbers within the types.

    Attributes:
        name: Its name.
        kind: The kind of network.
        nodes: Number of nodes of each type.
        edges: (edges, 2) int64 by ``source:relation:target``, distinct, without self-loops.
    """

    name: str
    kind: str
    nodes: dict[str, int]
    edges: dict[str, Pairs]

    def save(self, path: Path) -> None:
        """Write the graph as text of gaps between sorted pairs, compressed."""
        lines = [f"{self.name}\t{self.kind}"]
        lines += [f"{name}\t{count}" for name, count in self.nodes.items()]
        for name, pairs in self.edges.items():
            keys = np.sort(pairs[:, 0] * (1 << 32) + pairs[:, 1])
            sources, targets = keys >> 32, keys & (2**32 - 1)
            gaps = np.diff(sources, prepend=0)
            steps = np.where(gaps > 0, targets, np.diff(targets, prepend=0))
            lines += [name, " ".join(map(str, gaps.tolist())), " ".join(map(str, steps.tolist()))]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))

    @classmethod
    def load(cls, path: Path) -> RealGraph:
        """Read what `save` wrote."""
        lines = lzma.decompress(path.read_bytes()).decode().split("\n")
        name, kind = lines[0].split("\t")
        types = [line.split("\t") for line in lines[1:] if "\t" in line]
        rest, edges = lines[1 + len(types) :], {}
        for first in range(0, len(rest), 3):
            gaps, steps = (np.array(line.split(), np.int64) for line in rest[first + 1 : first + 3])
            sources = np.cumsum(gaps)
            starts = np.flatnonzero(np.concatenate([[True], gaps[1:] > 0])) if len(gaps) else []
            sums = np.cumsum(steps)
            before = np.repeat(sums[starts] - steps[starts], np.diff([*starts, len(gaps)]))
            edges[rest[first]] = np.column_stack([sources, sums - before])
        return cls(name, kind, {name: int(count) for name, count in types}, edges)


@dataclass
class Builder:
    """Collects nodes by their names, and edges between them."""

    numbers: dict[str, dict[Any, int]] = field(default_factory=lambda: defaultdict(dict))
    pairs: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def node(self, node_type: str, name: Any) -> int:
        numbers = self.numbers[node_type]
        return numbers.setdefault(name, len(numbers))

    def edge(self, edge_type: str, source: Any, target: Any) -> None:
        source_type, _, target_type = edge_type.split(":")
        pair = self.node(source_type, source), self.node(target_type, target)
        if source_type != target_type or pair[0] != pair[1]:
            self.pairs[edge_type].append(pair)

    def build(self, name: str, kind: str) -> RealGraph:
        nodes = {node_type: len(numbers) for node_type, numbers in self.numbers.items()}
        edges = {edge: np.unique(np.array(pairs, np.int64), axis=0) for edge, pairs in self.pairs.items()}
        return RealGraph(name, kind, nodes, edges)


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True).stdout.decode(errors="replace")


def archive() -> RealGraph:
    """Packages that apt knows, their dependencies, maintainers, sections and tags."""
    graph, links = Builder(), {"Depends": "needs", "Recommends": "recommends", "Pre-Depends": "needs"}
    blocks = re.sub(r"\n ", " ", output("apt-cache", "dumpavail")).split("\n\n")
    blocks = blocks if len(blocks) > 1000 else re.sub(r"\n ", " ", output("dpkg", "-s")).split("\n\n")
    packages = [dict(re.findall(r"^([\w-]+): (.*)$", block, re.M)) for block in blocks]
    known = {fields["Package"] for fields in packages if "Package" in fields}
    for fields in packages:
        name = fields.get("Package")
        if name is None:
            continue
        graph.edge("package:maintained_by:maintainer", name, fields.get("Maintainer", "nobody"))
        graph.edge("package:in:section", name, fields.get("Section", "none"))
        for key, relation in links.items():
            for other in re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)", fields.get(key, "")):
                if other in known:
                    graph.edge(f"package:{relation}:package", name, other)
        for tag in re.findall(r"[\w:+-]+::[\w:+-]+", fields.get("Tag", "")):
            graph.edge("package:has:tag", name, tag)
    return graph.build("archive", "packages of the distribution")


def binaries() -> RealGraph:
    """Installed programs and libraries, and the symbols that they define and use."""
    graph = Builder()
    places = [path for folder in ("/usr/bin", "/usr/sbin", "/usr/lib") for path in Path(folder).rglob("*")]
    for path in sorted(path for path in places if path.is_file() and not path.is_symlink()):
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        kind = "library" if ".so" in path.name else "program"
        try:
            lines = output("readelf", "-dW", "--dyn-syms", str(path)).splitlines()
        except subprocess.CalledProcessError:
            continue
        graph.node(kind, path.name)
        for line in lines:
            needed = re.search(r"\(NEEDED\).*\[(.*)\]", line)
            if needed:
                graph.edge(f"{kind}:needs:library", path.name, needed[1])
            words = line.split()
            if len(words) >= 8 and words[4] in ("GLOBAL", "WEAK"):
                relation = "uses" if words[6] == "UND" else "defines"
                graph.edge(f"{kind}:{relation}:symbol", path.name, words[7].split("@")[0])
    return graph.build("binaries", "binaries and symbols")


def environment() -> RealGraph:
    """The Python environment: distributions, modules, classes, functions and calls."""
    from examples.python_environment.build import build_graph, parse_environment
    from examples.python_environment.discover import discover, installation_folders
    from partition_ops.system.progress import NoProgress

    found = discover(installation_folders(), ())
    graph = build_graph(
        found, parse_environment(found, 2, NoProgress()), seed=0, classes=None, progress=NoProgress()
    )
    counts = {name: len(one.names) for name, one in graph.nodes.items()}
    edges = {
        name: distinct(
            np.column_stack([one.src, one.dst]), same_type=name.split(":")[0] == name.split(":")[2]
        )
        for name, one in graph.edges.items()
    }
    return RealGraph("environment", "code", counts, edges)


def history(repository: Path) -> RealGraph:
    """Commits, their authors, and the files that they change."""
    graph = Builder()
    for commit, author, parents, files in commits(repository):
        graph.edge("author:wrote:commit", author, commit)
        for parent in parents:
            graph.edge("commit:follows:commit", commit, parent)
        for path in files:
            graph.edge("commit:changes:file", commit, path)
    return graph.build("history", "history of a repository")


def coauthors(repository: Path) -> RealGraph:
    """Authors who changed the same file."""
    graph, people = Builder(), defaultdict(list)
    for _, author, _, files in commits(repository):
        for path in files:
            if author not in people[path]:
                people[path].append(author)
    for authors in people.values():
        for one, other in combinations(authors[-MOST_OF_A_FILE:], 2):
            graph.edge("person:knows:person", one, other)
    return graph.build("coauthors", "social")


def objects(repository: Path) -> RealGraph:
    """Commits, trees and files (blobs) of a repository, and what contains what."""
    graph = Builder()
    for line in output("git", "-C", str(repository), "log", "--format=%H %T").splitlines():
        graph.edge("commit:has:tree", *line.split())
    done: set[str] = set()
    waiting = list(graph.numbers["tree"])
    while waiting:
        done |= {*waiting}
        names, waiting = waiting, []
        command = ["git", "-C", str(repository), "cat-file", "--batch"]
        found = subprocess.run(
            command, input="\n".join(names).encode(), capture_output=True, check=True
        ).stdout
        at = 0
        for name in names:
            end = found.index(b"\n", at)
            header = found[at:end].split()
            if header[1] == b"missing":
                at = end + 1
                continue
            body = found[end + 1 : end + 1 + int(header[2])]
            at = end + 2 + int(header[2])
            while body:
                mode, _, rest = body.partition(b" ")
                body = rest[rest.index(b"\0") + 1 :]
                child, body = body[:20].hex(), body[20:]
                if mode == b"40000":
                    graph.edge("tree:contains:tree", name, child)
                    if child not in done:
                        done.add(child)
                        waiting.append(child)
                elif mode != b"160000":
                    graph.edge("tree:holds:blob", name, child)
    return graph.build("objects", "objects of a repository")


def names() -> RealGraph:
    """Characters of Unicode, the words of their names, and their blocks: a bipartite graph with hubs."""
    import unicodedata

    graph = Builder()
    for code in range(0x110000):
        name = unicodedata.name(chr(code), "")
        if name and not re.search(r"CJK (UNIFIED|COMPAT)|HANGUL SYLLABLE|TANGUT IDEO|NUSHU|KHITAN", name):
            character = graph.node("character", code)
            graph.edge("character:in:block", code, code >> 7)
            for word in name.split():
                graph.edge("character:has:word", code, word)
            parts = unicodedata.decomposition(chr(code)).split()
            for part in (part for part in parts if not part.startswith("<") and character >= 0):
                if unicodedata.name(chr(int(part, 16)), ""):
                    graph.edge("character:consists_of:character", code, int(part, 16))
    return graph.build("names", "knowledge")


def manuals() -> RealGraph:
    """Manual pages, the pages that they refer to, and the words that they begin with."""
    graph = Builder()
    pages = {path.name.removesuffix(".gz"): path for path in Path("/usr/share/man").glob("man*/*.gz")}
    for name, path in sorted(pages.items()):
        if path.is_symlink():
            continue
        with gzip.open(path, "rt", errors="replace") as file:
            text = re.sub(r"\\f[A-Z]|\\-", "", file.read())
        page = tuple(name.rsplit(".", 1))
        graph.edge("page:in:section", page, path.parent.name)
        for other in re.findall(r"([\w.+:-]+)\s*\(([1-9]\w*)\)", text):
            if f"{other[0]}.{other[1]}" in pages:
                graph.edge("page:refers_to:page", page, other)
        for word in dict.fromkeys(re.findall(r"[a-z]{4,}", text[:MOST_TEXT].lower())):  # in one order
            graph.edge("page:uses:word", page, word)
    return graph.build("manuals", "bibliographic")


def files() -> RealGraph:
    """Installed packages, their files, and the folders: close to a tree, with a few hubs."""
    graph = Builder()
    for listed in sorted(Path("/var/lib/dpkg/info").glob("*.list")):
        package = listed.name.split(":")[0].removesuffix(".list")
        for line in listed.read_text().splitlines():
            path = Path(line)
            kind = "folder" if path.is_dir() else "file"
            graph.edge(f"package:ships:{kind}", package, line)
            if line != "/.":
                graph.edge(f"{kind}:in:folder", line, str(path.parent))
    return graph.build("files", "files of packages")


def includes() -> RealGraph:
    """C headers, what they include, and their folders."""
    graph = Builder()
    found = sorted(Path("/usr/include").rglob("*.h"))
    by_name = defaultdict(list)
    for path in found:
        for number in range(1, len(path.parts)):
            by_name["/".join(path.parts[-number:])].append(path)
    for path in found:
        graph.edge("header:in:folder", path, path.parent)
        for name in re.findall(rb'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_bytes(), re.M):
            near = by_name.get(name.decode(errors="replace"), [])
            if near:
                graph.edge("header:includes:header", path, near[0])
    return graph.build("includes", "dependencies")


def terrain_points(count: int) -> npt.NDArray[np.float64]:
    """Points on matplotlib's model of the terrain of Jacksboro, closer together where it is steep."""
    from matplotlib.cbook import get_sample_data

    with get_sample_data("jacksboro_fault_dem.npz") as found:
        heights = found["elevation"].astype(np.float64)
    steep = np.hypot(*np.gradient(heights))
    random = np.random.default_rng(0)
    cells = random.choice(heights.size, count, replace=False, p=((steep + 1) / (steep + 1).sum()).ravel())
    rows, columns = np.divmod(cells, heights.shape[1])
    return np.column_stack([rows, columns]) + random.random((count, 2)) * 0.8


def triangulate(points: npt.NDArray[np.float64]) -> Pairs:
    from scipy.spatial import Delaunay

    corners = Delaunay(points).simplices.astype(np.int64)
    return distinct(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]))


def terrain() -> RealGraph:
    """A triangle mesh of the terrain."""
    count = 20_000
    return RealGraph(
        "terrain", "mesh", {"point": count}, {"point:beside:point": triangulate(terrain_points(count))}
    )


def roads() -> RealGraph:
    """The relative neighbourhood graph of places on the terrain, which is shaped like a network of roads.

    Places are connected if no third one is closer to both; every road goes through a few nodes of its own.
    """
    from scipy.spatial import cKDTree

    places = terrain_points(8_000)
    pairs = triangulate(places)
    lengths = np.hypot(*(places[pairs[:, 0]] - places[pairs[:, 1]]).T)
    tree, kept = cKDTree(places), []
    for pair, length in zip(pairs, lengths, strict=True):
        one, other = (set(tree.query_ball_point(places[end], length * (1 - 1e-9))) for end in pair)
        if not (one & other) - set(pair.tolist()):
            kept.append(pair)
    graph = Builder()
    for number in range(len(places)):
        graph.node("node", number)
    for number, (begin, end) in enumerate(kept):
        steps = [int(begin), *((number, i) for i in range(number % 3)), int(end)]
        for step in pairwise(steps):
            graph.edge("node:road:node", *step)
    return graph.build("roads", "roads")


def power_law() -> RealGraph:
    """An R-MAT graph of 2**16 nodes, as Graph500 draws it, with fewer edges."""
    random, bits, count = np.random.default_rng(0), 16, 400_000
    ends = np.zeros((2, count), np.int64)
    for _ in range(bits):
        draws = random.random(count)
        ends = 2 * ends + np.array([draws >= 0.76, ((draws >= 0.57) & (draws < 0.76)) | (draws >= 0.95)])
    return RealGraph("power law", "power law", {"node": 1 << bits}, {"node:to:node": distinct(ends.T)})


def distinct(pairs: Any, *, same_type: bool = True) -> Pairs:
    """Return the pairs in order, once each; without self-loops if both ends are of one type."""
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]] if same_type else pairs, axis=0)


def commits(repository: Path) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Yield hash, author, parents and files of each commit, the oldest first."""
    text = output(
        "git",
        "-C",
        str(repository),
        "log",
        "--reverse",
        "--name-only",
        "--no-renames",
        "--format=%x01%H%x02%ae%x02%P",
    )
    for entry in text.split("\x01")[1:]:
        header, *paths = entry.strip("\n").split("\n")
        commit, author, parents = header.split("\x02")
        changed = [path for path in paths if path]
        yield commit, author.lower(), parents.split(), changed if len(changed) <= MOST_FILES else []


def builders(repository: Path) -> dict[str, Callable[[], RealGraph]]:
    """Return the builder of each graph.

    Args:
        repository: Clone of a repository with a long history.
    """
    return {
        "archive": archive,
        "binaries": binaries,
        "environment": environment,
        "history": lambda: history(repository),
        "objects": lambda: objects(repository),
        "coauthors": lambda: coauthors(repository),
        "names": names,
        "manuals": manuals,
        "files": files,
        "includes": includes,
        "terrain": terrain,
        "roads": roads,
        "power law": power_law,
    }


def all_graphs(wanted: Iterable[str]) -> Iterator[RealGraph]:
    """Yield graphs: kept ones from their files, and others from the machine."""
    for name in wanted:
        path = FOLDER / f"{name}.xz"
        yield RealGraph.load(path) if path.exists() else builders(Path())[name]()
