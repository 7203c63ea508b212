import subprocess

import pytest
import torch

from normscope.errors import SettingError
from normscope.training import device
from normscope.training.device import (
    choose_device,
    full_precision,
    gains_from_bfloat16,
    reduced_precision,
    survives_bfloat16,
)

CPU = torch.device("cpu")


@pytest.fixture
def machine(monkeypatch):
    def make(cuda, mps):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return make


@pytest.mark.parametrize(("cuda", "mps", "taken"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_auto_takes_the_fastest_there_is(machine, cuda, mps, taken):
    machine(cuda, mps)
    assert choose_device("auto") == torch.device(taken)


def test_a_named_device_is_taken(machine):
    machine(cuda=True, mps=False)
    assert choose_device("cpu") == CPU
    assert choose_device("cuda:1") == torch.device("cuda", 1)


@pytest.mark.parametrize("name", ["cuda:0", "mps", "xpu", "tpu", "cpu:x"])
def test_a_device_that_is_not_here_is_refused_with_the_choices(machine, name):
    machine(cuda=False, mps=False)
    with pytest.raises(SettingError, match=f"no device '{name}' here; choose from auto, cpu$"):
        choose_device(name)


def precision():
    """Of products; none is computed, as not every processor survives one in bfloat16."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def test_precision_is_reduced_only_where_it_pays(monkeypatch):
    monkeypatch.setattr(device, "gains_from_bfloat16", lambda _: False)
    with reduced_precision(CPU):
        assert precision() == torch.float32
    monkeypatch.setattr(device, "gains_from_bfloat16", lambda _: True)
    with reduced_precision(CPU):
        assert precision() == torch.bfloat16


def test_losses_are_computed_in_full_precision_within_it(monkeypatch):
    monkeypatch.setattr(device, "gains_from_bfloat16", lambda _: True)
    with reduced_precision(CPU):
        with full_precision(CPU):
            assert precision() == torch.float32
        assert precision() == torch.bfloat16


@pytest.mark.parametrize(
    ("has", "survives", "gains"),
    [
        ({"amx_bf16": True}, True, True),
        ({"amx_bf16": True}, False, False),
        ({"avx512_bf16": True}, True, False),
        ({"avx512_bf16": False, "avx2": True}, True, False),
    ],
)
def test_a_processor_gains_from_bfloat16_if_it_has_tiles_that_work(monkeypatch, has, survives, gains):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has, raising=False)
    monkeypatch.setattr(device, "survives_bfloat16", lambda: survives)
    assert gains_from_bfloat16(CPU) is gains
    assert gains_from_bfloat16(torch.device("mps")) is False


@pytest.mark.parametrize(("ending", "survives"), [("", True), ("; import os; os.kill(os.getpid(), 4)", False)])
def test_an_illegal_instruction_ends_another_process_alone(monkeypatch, ending, survives):
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda command, **how: run([*command[:2], f"pass{ending}"], **how))
    assert survives_bfloat16.__wrapped__() is survives
