import pytest
import torch

from normscope.errors import SettingError
from normscope.training import device
from normscope.training.device import choose_device, full_precision, gains_from_bfloat16, reduced_precision

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


def product():
    return (torch.ones(2, 2) @ torch.ones(2, 2)).dtype


def test_precision_is_reduced_only_where_it_pays(monkeypatch):
    monkeypatch.setattr(device, "gains_from_bfloat16", lambda _: False)
    with reduced_precision(CPU):
        assert product() == torch.float32
    monkeypatch.setattr(device, "gains_from_bfloat16", lambda _: True)
    with reduced_precision(CPU):
        assert product() == torch.bfloat16


def test_losses_are_computed_in_full_precision_within_it(monkeypatch):
    monkeypatch.setattr(device, "gains_from_bfloat16", lambda _: True)
    with reduced_precision(CPU):
        with full_precision(CPU):
            assert product() == torch.float32
        assert product() == torch.bfloat16


@pytest.mark.parametrize(
    ("has", "gains"),
    [
        ({"avx512_bf16": True}, True),
        ({"amx_bf16": True}, True),
        ({"avx512_bf16": False, "avx2": True}, False),
    ],
)
def test_a_processor_gains_from_bfloat16_if_it_multiplies_it(monkeypatch, has, gains):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has, raising=False)
    assert gains_from_bfloat16(CPU) is gains
    assert gains_from_bfloat16(torch.device("mps")) is False
