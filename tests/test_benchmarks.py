"""Every benchmark that runs offline leaves its lines."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from normscope import Detector
from normscope.benchmark import results

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "arguments", "lines"),
    [
        ("speed", ["training", "--steps", "1", "--rounds", "1", "--side", "16"], 1),
        ("memory", ["files", "--counts", "[2, 4]"], 4),
        ("memory", ["infonce", "--batches", "[8]"], 4),
        ("scale", ["grid", "--rounds", "1", "--cells", "[2]"], 1),
    ],
)
def test_a_benchmark_leaves_its_lines(module, arguments, lines, tmp_path, monkeypatch):
    assert len(left(module, arguments, tmp_path, monkeypatch)) == lines


@pytest.mark.slow
def test_clients_of_a_server_are_counted(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16), dtype=np.uint8)
    Detector("pca", false_alarm_rate=0.1).fit(images).save(tmp_path / "model")
    Image.fromarray(images[0]).save(tmp_path / "image.png")
    arguments = ["--model", str(tmp_path / "model"), "--image", str(tmp_path / "image.png")]
    found = left("serving", [*arguments, "--clients", "[1, 2]", "--requests", "6"], tmp_path, monkeypatch)
    assert [(line["clients"], line["requests"], line["statuses"]) for line in found] == [
        (1, 6, {"200": 6}),
        (2, 6, {"200": 6}),
    ]


def left(module, arguments, tmp_path, monkeypatch):
    """The lines that the benchmark wrote; none failed."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(sys, "argv", [module, *arguments, "--out", str(tmp_path / "lines.jsonl")])
    threads = torch.get_num_threads()
    importlib.import_module(f"benchmarks.{module}").main()
    torch.set_num_threads(threads)
    found = results.read(tmp_path / "lines.jsonl")
    assert all(line["error"] is None for line in found)
    return found
