"""The check ``ingest``."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import open_store
from tests.tables import RATINGS, SHOP, USERS, ingest, write_shop

LENIENT = SHOP + "on_defect: {null_keys: drop, duplicate_keys: drop, absent_keys: drop}\n"


def test_the_report_says_what_was_dropped(tmp_path: Path) -> None:
    users = [*USERS, {**USERS[0], "user_id": None}, {**USERS[0], "age": 99}]
    ratings = [*RATINGS, {**RATINGS[0], "sku": "zz"}]
    write_shop(tmp_path / "tables", users=users, ratings=ratings, graph=LENIENT)
    ingest(tmp_path / "tables", tmp_path / "graph")
    run = open_store(str(tmp_path / "run"))
    validate_graph(ValidateConfig(on_defect="warn"), open_store(str(tmp_path / "graph")), run)
    defects = run.read_json(layout.VALIDATION_REPORT)["defects"]
    found = {one["name"]: one for one in defects if one["check"] == "ingest"}
    assert {name: (one["count"], one["action"]) for name, one in found.items()} == {
        "user": (3, "warn"),  # and a part of the split that no row is in
        "user:rated:item": (1, "warn"),
    }
    assert [one["sentence"] for one in found["user:rated:item"]["examples"]] == [
        "absent_keys (drop): 1 row of ratings.jsonl (edges 'user:rated:item') whose item in sku is not in"
        " items.csv (1 key)",
        "sku 'zz' in ratings.jsonl, row 4",
    ]
    assert not [one for one in defects if one["check"] == "unknown_keys"]


@pytest.mark.parametrize("content", ["[]", "{}", '{"findings": 3}'])
def test_a_damaged_report_of_ingest_is_named(content: str, tmp_path: Path) -> None:
    write_shop(tmp_path / "tables")
    ingest(tmp_path / "tables", tmp_path / "graph")
    (tmp_path / "graph/ingest.json").write_text(content)
    with pytest.raises(InvalidInputError, match=r"ingest\.json"):
        validate_graph(
            ValidateConfig(), open_store(str(tmp_path / "graph")), open_store(str(tmp_path / "run"))
        )
