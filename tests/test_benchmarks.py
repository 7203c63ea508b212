"""Every benchmark that runs offline leaves its lines."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

from normscope.benchmark import results

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "arguments", "lines"),
    [
        ("speed", ["training", "--steps", "1", "--rounds", "1", "--side", "16"], 1),
        ("memory", ["files", "--counts", "[2, 4]"], 4),
        ("memory", ["infonce", "--batches", "[8]"], 2),
    ],
)
def test_a_benchmark_leaves_its_lines(module, arguments, lines, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(sys, "argv", [module, *arguments, "--out", str(tmp_path / "lines.jsonl")])
    threads = torch.get_num_threads()
    importlib.import_module(f"benchmarks.{module}").main()
    torch.set_num_threads(threads)
    found = results.read(tmp_path / "lines.jsonl")
    assert len(found) == lines
    assert all(line["error"] is None for line in found)
