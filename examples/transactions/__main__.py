"""Payments between accounts as tables with keys, drawn at random.

    python -m examples.transactions FOLDER

writes ``accounts.csv``, ``payments.csv``, ``no_payments.csv`` and ``graph.yaml``. docs/link-prediction.md
trains on them.
"""

from __future__ import annotations

import csv
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

ACCOUNTS, PAYMENTS, GROUPS = 600, 8_000, 10
BEGIN, DAYS, VAL, TEST = datetime(2024, 1, 1), 90, 60, 75
GRAPH = """\
graph_name: transactions

nodes:
  account:
    table: accounts.csv
    key: account
    features:
      sector: {transform: one-hot}

edges:
  account:pays:account:
    table: payments.csv
    key: payment                     # predictions are joined to the table by it
    src: payer
    dst: payee
    features:
      amount: {transform: rank-gauss}
    split: {time: at, val: 2024-03-01, test: 2024-03-16}
    reverse: true                    # messages also go from payees to payers
    negatives:                       # pairs without a payment
      table: no_payments.csv
      split: {column: part, train: [train], val: [val], test: [test]}
"""


def write_rows(path: Path, columns: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def write_tables(folder: Path) -> None:
    """Write the tables; nine of ten payments are inside of a group, the sector of more than half of it."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"AC{number:08d}" for number in rng.choice(10**8, ACCOUNTS, replace=False)]
    groups = rng.integers(0, GROUPS, ACCOUNTS)
    sectors = np.where(rng.random(ACCOUNTS) < 0.5, groups, rng.integers(0, GROUPS, ACCOUNTS))
    write_rows(
        folder / "accounts.csv",
        ["account", "sector"],
        [[name, f"S{sector}"] for name, sector in zip(names, sectors, strict=True)],
    )
    members = [np.flatnonzero(groups == group) for group in range(GROUPS)]
    payers = rng.integers(0, ACCOUNTS, PAYMENTS)
    anyone = rng.integers(0, ACCOUNTS, PAYMENTS)
    inside = np.array([rng.choice(members[groups[payer]]) for payer in payers])
    payees = np.where(rng.random(PAYMENTS) < 0.9, inside, anyone)
    seconds = np.sort(rng.integers(0, DAYS * 86_400, PAYMENTS))
    amounts = np.round(rng.lognormal(3, 1, PAYMENTS), 2)
    seen, rows = set(), []
    for number, (payer, payee) in enumerate(zip(payers, payees, strict=True)):
        if payer != payee and (payer, payee) not in seen:  # the first payment of a pair
            seen.add((payer, payee))
            at = BEGIN + timedelta(seconds=int(seconds[number]))
            rows.append([f"P{number:06d}", names[payer], names[payee], at.isoformat(" "), amounts[number]])
    write_rows(folder / "payments.csv", ["payment", "payer", "payee", "at", "amount"], rows)
    parts = np.digitize(seconds[[int(row[0][1:]) for row in rows]], [VAL * 86_400, TEST * 86_400])
    others = []
    for part in parts:  # as many pairs without a payment in each part
        payer, payee = rng.integers(0, ACCOUNTS, 2)
        while payer == payee or (payer, payee) in seen:
            payer, payee = rng.integers(0, ACCOUNTS, 2)
        others.append([names[payer], names[payee], ("train", "val", "test")[part]])
    write_rows(folder / "no_payments.csv", ["payer", "payee", "part"], others)
    (folder / "graph.yaml").write_text(GRAPH, encoding="utf-8")
    print(f"{ACCOUNTS:,} accounts, {len(rows):,} payments, {len(others):,} pairs without a payment")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m examples.transactions FOLDER")
    write_tables(Path(sys.argv[1]))
