"""The table of docs/export.md."""

import json

from lines import ROOT, grouped

from normscope.tables.layout import markdown_table

DATASETS = {"digits": "digits", "magnetic-tile": "tiles"}
FORMATS = {"onnx": "ONNX", "openvino": "OpenVINO"}


def parity() -> str:
    """The largest difference of scores, on their own scale, for each method, data set and format; or why there is
    none."""
    file = ROOT / "results" / "export.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    heads = [f"{short}, {to}" for short in DATASETS.values() for to in FORMATS.values()]
    body = [row(method, own) for method, own in sorted(grouped(lines, lambda line: line["method"]).items())]
    return markdown_table(["method", *heads, "heat maps", ""], *body)


def row(method: str, lines: list[dict]) -> list[str]:
    found = {(line["dataset"], line["format"]): line["parity"] for line in lines if line["parity"]}
    scores = [found.get((dataset, to)) for dataset in DATASETS for to in FORMATS]
    maps = [one["heat_map"] for one in found.values() if one["heat_map"] is not None]
    errors = [line["error"].partition(f"the method {method} ")[2] for line in lines if line["error"]]
    shown = [f"{one['relative']:.0e}" if one else "–" for one in scores]
    return [f"`{method}`", *shown, f"{max(maps):.0e}" if maps else "–", errors[0] if errors else ""]
