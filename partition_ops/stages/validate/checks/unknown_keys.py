"""Parts of ``metadata.json`` that no stage reads."""

from partition_ops.stages.validate.check import Check, Finding, Findings, GraphFacts, example


def find(facts: GraphFacts) -> Findings:
    from partition_ops.chunked.metadata import known_metadata_keys

    keys = sorted(set(facts.document) - known_metadata_keys())
    edges = sorted(set(facts.document["edges"]) - set(facts.document["edge_type"]))
    sentences = [f"metadata.json has {key!r}, which the format does not have" for key in keys]
    sentences += [f"metadata.json has edges of {name!r}, which edge_type does not list" for name in edges]
    yield Finding("metadata.json", [example(sentence) for sentence in sentences], len(sentences))


CHECK = Check(
    name="unknown_keys",
    severity="warning",
    actions=("warn", "fail"),
    finding="metadata.json has a key that the format does not know, or edges of a type that it does not list",
    harm="the features of a misspelt section, or the edges, are ignored silently",
    title="On unknown keys in metadata.json",
    graph=find,
)
