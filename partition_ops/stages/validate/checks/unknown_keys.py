"""Parts of ``metadata.json`` that no stage reads."""

from difflib import get_close_matches

from partition_ops.stages.validate.check import Check, Finding, Findings, GraphFacts, example


def find(facts: GraphFacts) -> Findings:
    from partition_ops.chunked.metadata import known_metadata_keys

    known = known_metadata_keys()
    keys = sorted(set(facts.document) - known)
    absent = sorted(known - set(facts.document))
    edges = sorted(set(facts.document["edges"]) - set(facts.document["edge_type"]))
    sentences = [
        f"metadata.json has {key!r}, which the format does not have{_suggestion(key, absent)}" for key in keys
    ]
    sentences += [f"metadata.json has edges of {name!r}, which edge_type does not list" for name in edges]
    yield Finding("metadata.json", [example(sentence) for sentence in sentences], len(sentences))


def _suggestion(key: str, absent: list[str]) -> str:
    near = get_close_matches(key, absent, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


CHECK = Check(
    name="unknown_keys",
    severity="warning",
    actions=("warn", "fail"),
    finding="metadata.json has a key that the format does not know, or edges of a type that it does not list",
    harm="the features of a misspelt section, or the edges, are ignored silently",
    title="On unknown keys in metadata.json",
    graph=find,
)
