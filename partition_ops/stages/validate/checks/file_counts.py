"""Edge types whose files and counts differ in number."""

from partition_ops.stages.validate.check import Check, Finding, Findings, GraphFacts, example


def find(facts: GraphFacts) -> Findings:
    for edge_type, data, counts in zip(
        facts.metadata.edge_types, facts.metadata.edges, facts.metadata.num_edges_per_chunk, strict=True
    ):
        if counts is not None and len(counts) != len(data.files):
            found = f"{len(data.files)} files, where num_edges_per_chunk has {len(counts)} counts"
            yield Finding(str(edge_type), [example(found)])


CHECK = Check(
    name="file_counts",
    finding="an edge type has more or fewer files than counts",
    harm="chunks are matched with the wrong counts, and IDs shift",
    graph=find,
    equal_columns={
        "edge_types": ("files", "files_expected"),
        "features": ("files", "files_expected"),
    },
)
