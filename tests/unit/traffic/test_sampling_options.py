"""The options of sampling: one declaration for every stage that has them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pytest

from partition_ops.errors import UsageError
from partition_ops.options.arguments import add_options, config_of
from partition_ops.options.declare import StageConfig, option_group, options_of
from partition_ops.options.json_schema import form_fields
from partition_ops.options.values import build, parse_settings
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.traffic.model import Sampling
from partition_ops.traffic.options import SamplingOptions


@dataclass(frozen=True, kw_only=True)
class Stage(StageConfig):
    """Options of a stage that reads how trainers sample."""

    sampling: SamplingOptions = option_group(SamplingOptions)


def parse(*words: str) -> Stage:
    parser = argparse.ArgumentParser()
    add_options(parser, Stage, ProbeConfig)  # each option once
    return config_of(parser.parse_args(words), Stage)


def test_the_command_line_and_the_form_give_the_same() -> None:
    words = ("--train-nodes", "a", "--train-nodes", "b:m", "--fanout", "5", "-1", "--batch-size", "9")
    texts = {"train_nodes": "a, b:m", "fanouts": "5,-1", "batch_size": 9}
    wanted = SamplingOptions(train_nodes=("a", "b:m"), fanouts=(5, -1), batch_size=9)
    assert parse(*words).sampling == wanted
    assert build(Stage, parse_settings(Stage, texts)).sampling == wanted
    assert wanted.sampling == Sampling((5, -1), 9)


def test_the_defaults_of_the_form_are_valid_values() -> None:
    defaults = {name: field["default"] for name, field in form_fields(*options_of(SamplingOptions)).items()}
    assert build(SamplingOptions, parse_settings(SamplingOptions, defaults)) == SamplingOptions()
    assert parse().sampling == SamplingOptions()


def test_a_record_of_probe_has_the_options_side_by_side() -> None:
    options = build(ProbeConfig, {"fanouts": (5,), "batches": 3}).options()
    assert (options["fanouts"], options["batch_size"], options["batches"]) == ((5,), 1024, 3)


@pytest.mark.parametrize("fanouts", [(0,), (10, -2)])
def test_wrong_fanouts(fanouts: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="fanout is out of range"):
        SamplingOptions(fanouts=fanouts)
