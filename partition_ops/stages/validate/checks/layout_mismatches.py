"""Chunks of a feature that do not fit together."""

from partition_ops.stages.validate.check import Check, Finding, Findings, GraphFacts, example


def find(facts: GraphFacts) -> Findings:
    for name, feature in facts.features.items():
        first = feature.first_layout
        for index, layout in feature.comparable_layouts.items():
            same_dtype = feature.is_csv or first is None or layout.dtype == first.dtype  # text has no dtype
            if first is not None and not (same_dtype and layout.shape == first.shape):
                found = f"{feature.where(index)} has {layout}, the chunks before it {first}"
                key = feature.feature.data.files[index]
                yield Finding(name, [example(found, file=key, chunk=index)])


CHECK = Check(
    name="layout_mismatches",
    finding="chunks of a feature differ in dtype or in the shape of a row",
    harm="values are converted silently, or a later stage fails",
    graph=find,
    counted_in=("features",),
)
