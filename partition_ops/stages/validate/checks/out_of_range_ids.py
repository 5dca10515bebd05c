"""Edges that end outside the nodes of their types."""

from partition_ops.stages.validate.check import Check, EdgeRows, Findings, GraphFacts, Mask


def find(rows: EdgeRows) -> Mask | None:
    # as unsigned numbers, those below zero are the largest; mostly this is all
    if rows.src.view("u8").max() < rows.num_src and rows.dst.view("u8").max() < rows.num_dst:
        return None
    wrong: Mask = (rows.src < 0) | (rows.src >= rows.num_src) | (rows.dst < 0) | (rows.dst >= rows.num_dst)
    for missing in rows.missing or ():
        wrong &= ~missing
    return wrong


def read(facts: GraphFacts) -> Findings:
    """Read the negatives of edge types, which raises an error for such an ID."""
    from partition_ops.chunked.negatives import read_negatives

    for edge_type in facts.metadata.negatives:
        for _ in read_negatives(facts.source, facts.metadata, edge_type):
            pass
    return ()


CHECK = Check(
    name="out_of_range_ids",
    finding="an ID is below zero or not below the number of nodes of its type",
    harm="with homogeneous IDs, the edge would end at a node of another type",
    ids=find,
    graph=read,
    counted_in=("edge_types",),
)
