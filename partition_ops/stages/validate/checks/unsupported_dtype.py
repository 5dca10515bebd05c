"""Features that are not made of numbers."""

from partition_ops.stages.validate.check import Check, Finding, Findings, GraphFacts, example


def find(facts: GraphFacts) -> Findings:
    for name, feature in facts.features.items():
        for file in feature.files:
            if file.layout is not None and file.index not in feature.layouts:
                found = f"{file.layout.dtype} in {feature.where(file.index)}"
                yield Finding(name, [example(found, file=file.key, chunk=file.index)])


CHECK = Check(
    name="unsupported_dtype",
    finding="a feature is not made of numbers",
    harm="DGL's files cannot hold it",
    graph=find,
    counted_in=("features",),
)
