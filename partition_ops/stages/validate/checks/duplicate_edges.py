"""Edges that repeat an earlier edge of their type."""

from partition_ops.stages.validate.check import Check, Finding, Findings, GraphFacts, example


def find(facts: GraphFacts) -> Findings:
    for type_id, edges in facts.duplicates.items():
        examples = [
            example(
                f"edge {edge_id}, {src} -> {dst}, in row {row} of {chunk.key}",
                file=chunk.key,
                chunk=chunk.index,
                row=row,
                edge_id=edge_id,
                src=src,
                dst=dst,
            )
            for chunk, row, edge_id, src, dst in edges.first
        ]
        name = str(facts.metadata.edge_types[type_id])
        yield Finding(name, examples, len(edges.edge_ids), edges.edge_ids)


CHECK = Check(
    name="duplicate_edges",
    actions=("fail", "exclude", "drop", "warn"),
    finding="an edge has the same source and destination as an earlier edge of its type",
    harm="METIS and ParMETIS corrupt memory or fail on them; messages are counted twice in training",
    graph=find,
    counted_in=("edge_types",),
)
