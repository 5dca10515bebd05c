"""What ``ingest`` found in the tables that the graph was made from, and did not reject."""

from partition_ops.stages.validate.check import Check, Finding, Findings, GraphFacts, example


def find(facts: GraphFacts) -> Findings:
    from partition_ops.artifacts.documents import read_document  # DAG files import this module

    made = facts.document.get("ingest")
    for found in read_document(facts.source, made["data"], "ingest")["findings"] if made else ():
        sentence = f"{found['check']} ({found['action']}): {found['sentence']}"
        yield Finding(
            found["about"], [example(one) for one in (sentence, *found["examples"])], found["count"]
        )


CHECK = Check(
    name="ingest",
    severity="warning",
    actions=("warn",),
    counted_in=("node_types", "edge_types"),
    finding="a table had rows without a key, with a key that another row has or with a key that no node has,"
    " masks that overlap, a class without a training node, or values that no training row has; graph.yaml"
    " says what was done about it",
    harm="nodes or edges are missing unnoticed, or a model is tested on what it was trained on",
    graph=find,
)
