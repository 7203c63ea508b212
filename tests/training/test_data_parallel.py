"""Several processes against one: the same losses, step by step, and the same weights in the end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from normscope.methods import find, method_names
from normscope.training.data_parallel import data_parallel
from normscope.training.distributed import anywhere, from_rank_0, rank, world
from normscope.training.method import Method

SCRIPT = Path(__file__).with_name("ranks.py")
TRAINED = [name for name in method_names() if find(name).phases is not Method.phases]


def check_several_train_as_one(folder, counts, side, name):
    command = [sys.executable, str(SCRIPT), str(folder), ",".join(map(str, counts)), str(side), name]
    subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True, timeout=1800)
    one, *several = [json.loads((folder / f"{count}.json").read_text())[name] for count in counts]
    for found in several:
        assert len(one["records"]) == len(found["records"]) >= 20
        for before, after in zip(one["records"], found["records"], strict=True):
            assert after == pytest.approx(before, rel=1e-5, abs=1e-5)
        assert found["state"] == pytest.approx(one["state"], rel=1e-5, abs=1e-5)


@pytest.mark.slow
def test_two_processes_train_as_one_does(tmp_path):
    check_several_train_as_one(tmp_path, (1, 2), 8, "toy")


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_every_method_trains_with_two_and_three_processes_as_with_one(name, tmp_path):
    check_several_train_as_one(tmp_path, (1, 2, 3), 32, name)


def test_one_process_needs_no_group():
    assert (world(), rank(), from_rank_0(3), anywhere(None), anywhere(2)) == (1, 0, 3, None, 2)
    x = torch.ones(1, 2)
    assert data_parallel(torch.nn.Identity(), x) is x
