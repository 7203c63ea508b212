"""Writes the tables of README.md and docs/*.md from the lines in results/; --check only says if they are current.

A table stands between `<!-- NAME -->` and `<!-- end of NAME -->`; NAME is a key of TABLES.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import export_table
import paper_tables as paper
import performance_tables as performance
import product_tables as product
import reliability_table
import scale_tables as scale
import theory_tables as theory
from lines import ROOT

TABLES: dict[str, Callable[[], str]] = {
    "by default": product.by_default,
    "digits": product.digits,
    "levers": lambda: product.changes("levers.jsonl"),
    "references": product.references,
    "frozen head": lambda: product.changes("frozen_head.jsonl"),
    "table3 mnist": lambda: paper.table3("mnist"),
    "table3 fashion-mnist": lambda: paper.table3("fashion-mnist"),
    "table3 cifar10": lambda: paper.table3("cifar10"),
    "equal budget": paper.equal_budget,
    "table1": paper.table1,
    "table2": paper.table2,
    "beta": paper.beta,
    "lengths": paper.lengths,
    "long": paper.long,
    "published": paper.published,
    "published curve": paper.published_curve,
    "entropy term": paper.entropy_term,
    "accuracy": product.accuracy,
    "rivals": product.rivals,
    "photographs": product.photographs,
    "promised": product.promised,
    "local models": product.local_models,
    "tiles": product.tiles,
    "few anomalies": product.few_anomalies,
    "contamination": product.contamination,
    "false alarms": product.false_alarms,
    "patches": product.patches,
    "landscape": theory.landscape,
    "readings": theory.readings,
    "terms": theory.terms,
    "shifts": theory.shifts,
    "export": export_table.parity,
    "scale training": scale.training,
    "scale ray": scale.on_ray,
    "scale grid": scale.grid,
    "scale cost": scale.cost,
    "performance scoring": performance.scoring,
    "performance cold": performance.cold,
    "performance fit": performance.fit,
    "performance serving": performance.serving,
    "performance reduced": performance.reduced,
    "performance training": performance.training,
    "performance rivals": performance.rivals,
    "performance files": performance.files,
    "performance infonce": performance.infonce,
    "reliability": reliability_table.tried,
}


def main() -> None:
    stale = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if update(path)]
    if stale and "--check" in sys.argv:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"{names}: not what results/ says; run `make results-tables`")


def update(path: Path) -> bool:
    """Rewrites the tables of one page (unless only checking) and returns whether they differed."""
    before = after = path.read_text()
    for name, table in TABLES.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.S)
        after = block.sub(lambda found, table=table: found[1] + table() + found[2], after)
    if after != before and "--check" not in sys.argv:
        path.write_text(after)
    return after != before


if __name__ == "__main__":
    main()
