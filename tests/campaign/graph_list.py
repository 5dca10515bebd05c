"""A damaged list of graphs: it is rejected with an error of ours, or gives settings."""

from __future__ import annotations

import time

from partition_ops.errors import PartitionOpsError
from tests.campaign.frame import Attempt, Case, Defect, Verdict
from tests.damage import blank_piece, change_number, cut_end, cut_piece, flip, insert, repeat_piece

TEXT = """\
version: 1
defaults: {output_uri: s3://data/runs, num_parts: 4, engine: metis, seed: 7, formats: "dgl,pyg"}
graphs:
  - {input_uri: s3://data/mag, graph_name: mag, num_parts: 16}
  - input_uri: /data/shop/graph.yaml
    output_uri: /data/runs
    balance: edges
    storage_conn_id: aws_default
"""
WORDS = (
    *(
        "&a",
        "*a",
        "!!python/object:os.system",
        "!!binary x",
        "null",
        "~",
        "2024-01-01",
        "1e999",
        ".nan",
        "0x7f",
    ),
    *(
        "[" * 2000,
        "{a: " * 500,
        "&a [*a]",
        "- " * 1000,
        "<<: *a",
        "? ",
        "'",
        '"\\ud800"',
        "\0",
        "\ufeff",
        "9" * 5000,
    ),
    *(
        "---\n",
        "...\n",
        "%TAG ! x\n",
        "true",
        "yes",
        "-1",
        "1_0",
        "graphs: []\n",
        "\t",
        "  ",
        "version: 1\n",
        ": ",
    ),
)
CHANGES = (flip, cut_end, cut_piece, insert, repeat_piece, blank_piece, change_number)
SECONDS = 10.0  # of processor time


def damaged_list(attempt: Attempt) -> Verdict:
    """Damage the text, and read it as the task ``graphs`` of the DAG does."""
    from graph_partitioning.operators.repartition import read_graph_list

    chance, path = attempt.random, attempt.folder / "graphs.yaml"
    content = bytearray(TEXT.encode())
    done = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        if chance.random() < 0.5:
            word, place = chance.choice(WORDS), chance.randrange(len(content) + 1)
            content[place:place] = word.encode(errors="surrogatepass")
            done.append(repr(word[:20]))
        else:
            change = chance.choice(CHANGES)
            change(content, chance)
            done.append(change.__name__)
    path.write_bytes(content)
    began = time.process_time()
    try:
        found = read_graph_list(str(path), None)
    except PartitionOpsError as error:
        if error.exit_code not in (2, 3) or error.transient:
            raise Defect(f"{done}: {error!r}: {bytes(content)!r}") from error
        return Verdict.REFUSED
    except Exception as error:
        raise Defect(f"{done}: {error!r}: {bytes(content)!r}") from error
    if time.process_time() - began > SECONDS:
        raise Defect(f"{done}: more than {SECONDS:.0f} s: {bytes(content)!r}")
    if not all(isinstance(graph, dict) and graph.get("input_uri") for graph in found):
        raise Defect(f"{done}: {found}")
    return Verdict.SAME


CASES = [Case("list of graphs", damaged_list, 2_000, 20)]
