"""Write the diagrams of the documentation, SVG files in docs/images and docs/images/ko: ``make reference``.

Each has its own light background, so that it can be read on light and dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape, unescape
from pathlib import Path

IMAGES = Path(__file__).with_name("images")
INK, LINE, PALE, TEAL, AMBER = "#1d2733", "#5b6b7c", "#eef3f6", "#cfe8e5", "#fbe6c3"
HEAD = (
    '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 0 L8 4 L0 8 z" fill="{LINE}"/></marker></defs>'
)


def text(
    x: float, y: float, words: str, *, anchor: str = "middle", size: int = 14, bold: bool = False
) -> str:
    """Return a line of text."""
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}"{weight}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, *, fill: str = "#fff", dashed: bool = False) -> str:
    """Return a rectangle with round corners."""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{fill}" stroke="#1f6f8b"'
        f' stroke-width="1.5"{dash}/>'
    )


def labelled(x: float, y: float, words: str, *, width: float = 84, fill: str = "#fff") -> str:
    """Return a box with a line of text, 34 high."""
    return box(x, y, width, 34, fill=fill) + text(x + width / 2, y + 22, words)


def arrow(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    """Return a straight arrow."""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<path d="M{x1} {y1} L{x2} {y2}" stroke="{LINE}" stroke-width="1.5" fill="none"'
        f' marker-end="url(#a)"{dash}/>'
    )


def node(x: float, y: float, words: str, *, halo: bool = False) -> str:
    """Return a node; halo nodes are dashed."""
    dash = ' stroke-dasharray="4 3"' if halo else ""
    return (
        f'<circle cx="{x}" cy="{y}" r="21" fill="{AMBER if halo else TEAL}" stroke="#1f6f8b"'
        f' stroke-width="1.5"{dash}/>' + text(x, y + 5, words)
    )


def picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """Return the whole file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-label="{escape(title)}"'
        f' font-family="system-ui, sans-serif" fill="{INK}">\n'
        f'{HEAD}\n<rect width="{width}" height="{height}" rx="10" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def id_spaces() -> str:
    """Return the three authors and four papers of a graph in the ID spaces."""
    names = ["a0", "a1", "a2", "p0", "p1", "p2", "p3"]
    new = ["a0", "a2", "p2", "p3", "a1", "p0", "p1"]
    by_type = [name for kind in "ap" for name in new if name[0] == kind]
    left, step, parts = 190, 84, []
    rows: list[tuple[str, int, list[str], list[str]]] = [
        ("type-wise ID", 70, names, ["0", "1", "2", "0", "1", "2", "3"]),
        ("homogeneous ID", 150, names, [str(i) for i in range(7)]),
        ("new ID", 290, new, [str(i) for i in range(7)]),
        ("type-wise new ID", 400, by_type, ["0", "1", "2", "0", "1", "2", "3"]),
    ]
    for title, y, order, numbers in rows:
        parts.append(text(20, y + 22, title, anchor="start", bold=True))
        for i, (name, number) in enumerate(zip(order, numbers, strict=True)):
            fill = AMBER if name == "p2" else TEAL if name[0] == "a" else "#fff"
            parts.append(labelled(left + i * step, y, number, width=74, fill=fill))
    for x, words in ((left + 1.5 * step - 5, "author"), (left + 5 * step - 5, "paper")):
        parts += [text(x, 50, words), text(x, 392, words)]
    for x, count, words in ((left, 4, "partition 0"), (left + 4 * step, 3, "partition 1")):
        parts.append(box(x - 5, 250, count * step, 84, fill=PALE, dashed=True))
        parts.append(text(x + count * step / 2 - 5, 272, words))
    boxes = [part for part in parts if "stroke-dasharray" in part]
    parts = boxes + [part for part in parts if part not in boxes]
    at = {title: left + order.index("p2") * step + 37 for title, _, order, _ in rows}
    parts += [
        arrow(at["type-wise ID"], 104, at["homogeneous ID"], 148),
        arrow(at["homogeneous ID"], 184, at["new ID"], 288),
        arrow(at["new ID"], 324, at["type-wise new ID"], 398),
        text(left + 6.2 * step, 218, "partitioning"),
        text(20, 30, "The paper 2 of a graph with three authors and four papers", anchor="start"),
    ]
    return picture(810, 455, "The IDs of one node: 2, 5, 2 and 0", parts)


def partition() -> str:
    """Return a graph of six nodes, and its two partitions with their halo nodes."""

    def graph(places: Mapping[str, tuple[float, float]], edges: Iterable[str], halo: str = "") -> list[str]:
        lines = []
        for each in edges:
            (x1, y1), (x2, y2) = places[each[0]], places[each[1]]
            length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
            dx, dy = (x2 - x1) / length * 22, (y2 - y1) / length * 22
            crossing = (each[0] in "abc") != (each[1] in "abc")
            lines.append(arrow(x1 + dx, y1 + dy, x2 - dx, y2 - dy, dashed=crossing))
        return lines + [node(x, y, name, halo=name in halo) for name, (x, y) in places.items()]

    whole = {
        "a": (60, 110),
        "b": (60, 230),
        "c": (150, 170),
        "d": (250, 110),
        "e": (250, 230),
        "f": (340, 170),
    }
    first = {"a": (480, 110), "b": (480, 230), "c": (570, 170), "d": (660, 110)}
    second = {"c": (800, 170), "d": (890, 110), "e": (890, 230), "f": (980, 170)}
    parts = [
        box(30, 75, 155, 190, fill=PALE, dashed=True),
        box(215, 75, 155, 190, fill=PALE, dashed=True),
        text(107, 60, "partition 0"),
        text(292, 60, "partition 1"),
        *graph(whole, ["ab", "ac", "cb", "de", "df", "fe", "ce", "dc"]),
        text(200, 295, "the graph: two edges cross"),
        box(445, 75, 250, 190),
        text(570, 60, "files of partition 0"),
        *graph(first, ["ab", "ac", "cb", "dc"], "d"),
        text(570, 295, "a, b, c inner; d halo, without features"),
        box(765, 75, 250, 190),
        text(890, 60, "files of partition 1"),
        *graph(second, ["de", "df", "fe", "ce"], "c"),
        text(890, 295, "d, e, f inner; c halo, without features"),
        text(30, 28, "An edge belongs to the partition of its destination.", anchor="start"),
    ]
    return picture(1045, 320, "A graph, and its two partitions with their halo nodes", parts)


def edge() -> str:
    """Return the way of an edge from the input to a partition."""
    steps = [
        ("edges/cites-0.csv", ["row 7:  2 1", "type-wise IDs"]),
        ("assignment", ["paper 1 is in", "partition 1"]),
        ("bucket of partition 1", ["source 2 → new ID 2", "destination: row 2"]),
        ("partitions/part1", ["source 2 is halo", "edge_feat, orig_id 7"]),
        ("idmap/edges", ["orig_id 7,", "new_id, part 1"]),
    ]
    verbs = ["look up", "scatter", "gather", "idmap"]
    parts = []
    for i, (title, lines) in enumerate(steps):
        x = 20 + i * 215
        parts += [box(x, 60, 165, 110, fill=TEAL if i == 3 else "#fff"), text(x + 82, 85, title, bold=True)]
        parts += [text(x + 82, 115 + 24 * j, line, size=13) for j, line in enumerate(lines)]
        if i < 4:
            parts += [arrow(x + 165, 115, x + 213, 115), text(x + 189, 104, verbs[i], size=11)]
    parts.append(text(20, 34, "The edge cites 7, from paper 2 to paper 1", anchor="start"))
    return picture(1065, 195, "The life of an edge: file, assignment, bucket, partition, ID map", parts)


def dag() -> str:
    """Return the tasks of the DAG `partition_graph` in three rows."""
    step, width, first, second, third = 112, 88, 112, 330, 550

    def left(column: int) -> int:
        return 20 + column * step

    def task(column: int, y: float, name: str, *, fill: str = "#fff", dashed: bool = False) -> list[str]:
        x = left(column)
        frame = box(x, y - 17, width, 34, fill=fill, dashed=dashed)
        return [frame, text(x + width / 2, y + 5, name)]

    def way(column: int, y1: float, y2: float, *, to: int = 0, dashed: bool = False) -> str:
        return arrow(left(column) + width, y1, left(to or column + 1), y2, dashed=dashed)

    def mapped(column: int, y: float, name: str, *, dashed: bool = False) -> list[str]:
        above, below = (task(column, y + offset, name, dashed=dashed) for offset in (-28, 28))
        return [*above, text(left(column) + width / 2, y + 4, "…"), *below]

    def group(column: int, y: float, columns: int, name: str) -> list[str]:
        x, wide = left(column) - 10, columns * step - 4
        return [
            box(x, y - 76, wide, 134, fill=PALE),
            text(x + 12, y - 56, name, anchor="start"),
        ]

    def fan(column: int, y: float, *, dashed: bool = False) -> list[str]:
        ends = (-28, 28)
        return [way(column, y + a, y + b, dashed=dashed) for a in ends for b in ends]

    def turn(column: int, y: float, to: float, end: float) -> str:
        """Return an arrow from below a task to the beginning of the next row."""
        line = f"M{left(column) + width / 2} {y + 17} V{to} H{left(0) + width / 2} V{end}"
        return f'<path d="{line}" stroke="{LINE}" stroke-width="1.5" fill="none" marker-end="url(#a)"/>'

    def spread(column: int, y: float, name: str, *, dashed: bool) -> list[str]:
        """Return a group with a plan and mapped tasks, and the arrows to the task after these."""
        return [
            *group(column, y, 3 if dashed else 4, name),
            *task(column, y, "plan"),
            *(way(column, y, y + offset, dashed=dashed) for offset in (-28, 28)),
            *mapped(column + 1, y, "scatter", dashed=dashed),
            *mapped(column + 2, y, "gather", dashed=dashed),
            *fan(column + 1, y, dashed=dashed),
            *(way(column + 2, y + offset, y, dashed=dashed) for offset in (-28, 28)),
        ]

    parts = [
        text(20, 28, "Tasks with dashed frames run only if they are asked for.", anchor="start"),
        *task(0, first, "ingest", dashed=True),
        *spread(1, first, "validation", dashed=True),
        way(0, first, first),
    ]
    for column, name in enumerate(("validate", "lock", "revalidate", "schema"), 4):
        parts += task(column, first, name) + ([way(column, first, first)] if name != "schema" else [])
    parts += [
        turn(7, first, first + 85, second - 78),
        *spread(0, second, "preparation", dashed=True),
        *task(3, second, "prepare"),
        *task(4, second, "partition"),
        *spread(5, second, "convert", dashed=False),
        *(way(column, second, second) for column in (3, 4)),
        *task(8, second, "config"),
        turn(8, second, second + 85, third - 19),
        *task(0, third, "probe", dashed=True),
        box(left(1) - 10, third - 80, width + 20, 160, fill=PALE),  # each begins after probe
        arrow(left(0) + width, third, left(1) - 12, third),
    ]
    for offset, name, dashed in ((-53, "cache", True), (0, "idmap", False), (53, "quality", False)):
        parts += task(1, third + offset, name, dashed=dashed)
    parts += [
        *task(2, third + 53, "gate"),
        way(1, third + 53, third + 53),
        *(way(1, third + offset, third, to=3, dashed=offset == -53) for offset in (-53, 0)),
        way(2, third + 53, third),
        *task(3, third, "publish", fill=TEAL),
        *task(4, third, "retain", dashed=True),
        *task(5, third, "release"),
        *(way(column, third, third) for column in (3, 4)),
    ]
    title = "The DAG: ingest, validate, lock, revalidate, schema, prepare, partition, convert, then"
    return picture(
        left(9) + 10, 640, f"{title} idmap, cache and quality, gate, publish, retain, release", parts
    )


KOREAN = {
    "type-wise ID": "타입별 ID",
    "homogeneous ID": "동종 ID",
    "new ID": "새 ID",
    "type-wise new ID": "타입별 새 ID",
    "partitioning": "파티셔닝",
    "partition 0": "파티션 0",
    "partition 1": "파티션 1",
    "The paper 2 of a graph with three authors and four papers": (
        "저자 세 명과 논문 네 편이 있는 그래프의 논문 2"
    ),
    "The IDs of one node: 2, 5, 2 and 0": "한 노드의 ID: 2, 5, 2, 0",
    "the graph: two edges cross": "그래프: 두 에지가 경계를 넘습니다",
    "files of partition 0": "파티션 0의 파일",
    "files of partition 1": "파티션 1의 파일",
    "a, b, c inner; d halo, without features": "내부: a, b, c. 헤일로: d, 피처 없음",
    "d, e, f inner; c halo, without features": "내부: d, e, f. 헤일로: c, 피처 없음",
    "An edge belongs to the partition of its destination.": "에지는 목적지 노드의 파티션에 속합니다.",
    "A graph, and its two partitions with their halo nodes": "그래프와 그 두 파티션, 그리고 헤일로 노드",
    "row 7:  2 1": "행 7:  2 1",
    "type-wise IDs": "타입별 ID",
    "assignment": "할당",
    "paper 1 is in": "paper 1:",
    "bucket of partition 1": "파티션 1의 버킷",
    "source 2 → new ID 2": "소스 2 → 새 ID 2",
    "destination: row 2": "목적지: 행 2",
    "source 2 is halo": "소스 2는 헤일로",
    "look up": "찾기",
    "The edge cites 7, from paper 2 to paper 1": "paper 2에서 paper 1로 가는 에지 cites 7",
    "The life of an edge: file, assignment, bucket, partition, ID map": (
        "에지의 일생: 파일, 할당, 버킷, 파티션, ID 매핑"
    ),
}
DIAGRAMS = {"id-spaces": id_spaces, "partition": partition, "edge": edge, "dag": dag}
ENGLISH = ("dag",)  # on pages that are not translated


def in_korean(diagram: str) -> str:
    """Return a diagram with Korean words; names in code and files stay."""

    def translate(found: re.Match[str]) -> str:
        return found[1] + escape(KOREAN.get(unescape(found[2]), unescape(found[2]))) + found[3]

    return re.sub(r'(>|aria-label=")([^<>"]+)(</text>|")', translate, diagram)


def main() -> None:
    """Write every diagram."""
    for name, draw in DIAGRAMS.items():
        (IMAGES / f"{name}.svg").write_text(draw())
        if name not in ENGLISH:
            (IMAGES / f"ko/{name}.svg").write_text(in_korean(draw()))


if __name__ == "__main__":
    main()
