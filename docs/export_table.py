"""The table of docs/export.md."""

import json

from lines import ROOT, grouped

from normscope.tables.layout import markdown_table


def parity() -> str:
    """The largest difference of scores, on their own scale, for each method and format; or why there is none."""
    file = ROOT / "results" / "export.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    body = []
    for (dataset, method), own in grouped(lines, lambda line: (line["dataset"], line["method"])).items():
        by_format = {line["format"]: line["parity"] for line in own if line["parity"]}
        scores = [f"{by_format[name]['relative']:.0e}" if name in by_format else "–" for name in ("onnx", "openvino")]
        maps = [one["heat_map"] for one in by_format.values() if one["heat_map"] is not None]
        reason = own[0]["error"].partition(": ")[2] if own[0]["error"] else ""
        body.append([dataset, f"`{method}`", *scores, f"{max(maps):.0e}" if maps else "–", reason])
    return markdown_table(["images", "method", "ONNX", "OpenVINO", "heat maps", ""], *body)
