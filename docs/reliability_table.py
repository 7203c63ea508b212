"""What was tried and what was lost: the latest line of each kind in results/reliability.jsonl."""

from lines import ROOT

from normscope.benchmark import results
from normscope.benchmark.results import Result
from normscope.tables.layout import markdown_table

KNOWN = ("what", "tried", "lost", "seconds", "commit")


def tried() -> str:
    latest = {line["what"]: line for line in results.read(ROOT / "results" / "reliability.jsonl")}
    body = [
        [
            str(what),
            f"{line['tried']:,}",
            f"{line['lost']:,}",
            noted(line),
            f"{line['seconds']:,.0f}",
            str(line["commit"]),
        ]
        for what, line in sorted(latest.items(), key=lambda one: str(one[0]))
    ]
    return markdown_table(["what", "tried", "lost", "besides", "seconds", "commit"], *body)


def noted(line: Result) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in line.items() if name not in KNOWN)
