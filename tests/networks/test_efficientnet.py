import pytest
import torch

from normscope.networks.efficientnet import SCALES, Convolution, EfficientNetLite, from_published, stages_of
from normscope.networks.pretrained import LITE0, lite_weights


@pytest.mark.parametrize("side", [32, 45])
def test_maps_are_fractions_of_the_image(side):
    network = EfficientNetLite(LITE0)
    with torch.inference_mode():
        maps = network(torch.zeros(1, 3, side, side + 30))
    assert [x.shape[1:] for x in maps] == network.shapes((side, side + 30))
    assert [x.shape[1] for x in maps] == [24, 40, 112, 1280]
    assert [x.shape[2] for x in maps] == [-(-side // scale) for scale in (4, 8, 16, 32)]


@pytest.mark.parametrize(
    ("name", "channels", "blocks"),  # as published (Liu 2020)
    [
        ("efficientnet-lite0", [16, 24, 40, 80, 112, 192, 320], 16),
        ("efficientnet-lite1", [16, 24, 40, 80, 112, 192, 320], 21),
        ("efficientnet-lite2", [16, 24, 48, 88, 120, 208, 352], 21),
    ],
)
def test_the_larger_ones_are_wider_and_deeper(name, channels, blocks):
    assert [stage.channels for stage in stages_of(name)] == channels
    assert sum(stage.repeats for stage in stages_of(name)) == blocks
    assert name in SCALES


def test_folding_a_batch_norm_changes_nothing():
    convolution, norm = torch.nn.Conv2d(3, 8, 3, bias=False), torch.nn.BatchNorm2d(8, eps=1e-3).eval()
    for value, low in ((norm.weight, 0.5), (norm.bias, -1), (norm.running_mean, -1), (norm.running_var, 0.5)):
        torch.nn.init.uniform_(value, low, 2)
    state = dict(lite0_state(), **{"_conv_stem.weight": convolution.weight})
    state |= {f"_bn0.{name}": value for name, value in norm.state_dict().items()}
    folded = from_published(state, LITE0)
    x = torch.randn(2, 3, 9, 9)
    ours = torch.nn.functional.conv2d(x, folded["stem.weight"], folded["stem.bias"])
    assert torch.allclose(ours, norm(convolution(x)), atol=1e-5)


def lite0_state():
    """The names and shapes of the published file, all ones."""
    shapes = {name: value.shape for name, value in EfficientNetLite(LITE0).state_dict().items()}
    state = {}
    for ours, theirs, norm in [("stem", "_conv_stem", "_bn0"), ("head", "_conv_head", "_bn1")] + [
        (f"stages.{stage}.{block}.{ours}", f"_blocks.{i}.{theirs}", f"_blocks.{i}.{norm}")
        for i, (stage, block) in enumerate((s, b) for s, one in enumerate(stages_of(LITE0)) for b in range(one.repeats))
        for ours, theirs, norm in [
            ("expand", "_expand_conv", "_bn0"),
            ("depthwise", "_depthwise_conv", "_bn1"),
            ("project", "_project_conv", "_bn2"),
        ]
        if i or ours != "expand"
    ]:
        state[f"{theirs}.weight"] = torch.ones(shapes[f"{ours}.weight"])
        for name in ("weight", "bias", "running_mean", "running_var"):
            state[f"{norm}.{name}"] = torch.ones(shapes[f"{ours}.bias"])
    return state


@pytest.mark.parametrize(("size", "kernel", "before", "after"), [(224, 3, 0, 1), (7, 3, 1, 1), (14, 5, 1, 2)])
def test_padding_is_tensorflows(size, kernel, before, after):
    assert Convolution(1, 1, kernel, stride=2).missing(size) == (before, after)  # worked out by its "same" formula


@pytest.mark.parametrize("size", [(64, 49), (45, 70)])
def test_fused_convolutions_are_those_of_torch(size, monkeypatch):
    network = EfficientNetLite(LITE0)
    network.load_state_dict(lite_weights(LITE0, ""))
    x = 2 * torch.rand(3, 3, *size, generator=torch.Generator().manual_seed(0)) - 1
    with torch.inference_mode():
        assert network.stem.fuses(x) == torch.backends.mkldnn.is_available()
        fused = network(x)
        monkeypatch.setattr(Convolution, "fuses", lambda self, x: False)
        plain = network(x)
    for ours, theirs in zip(fused, plain, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5 * float(theirs.abs().max()))


def test_gradients_go_through_the_encoder():
    x = torch.zeros(1, 3, 32, 32, requires_grad=True)
    network = EfficientNetLite(LITE0).requires_grad_(False)
    assert not network.stem.fuses(x)
    network(x)[-1].sum().backward()
    assert x.grad is not None


def test_the_last_convolutions_alone_can_learn():
    x = torch.zeros(1, 3, 32, 32)
    network = EfficientNetLite(LITE0).requires_grad_(False)
    network.stages[-1].requires_grad_(True)
    network(x)[-1].sum().backward()
    assert all(weight.grad is not None for weight in network.stages[-1].parameters())
    with torch.no_grad():
        assert network.stages[-1][0].project.fuses(x) == torch.backends.mkldnn.is_available()


def test_the_published_weights_have_learnt_what_pictures_show():
    """A photograph moved by a pixel stays near, another one is far."""
    from sklearn.datasets import load_sample_images

    china, flower = (torch.tensor(image).permute(2, 0, 1)[None] / 127.5 - 1 for image in load_sample_images().images)
    network = EfficientNetLite(LITE0)
    network.load_state_dict(lite_weights(LITE0, ""))
    with torch.inference_mode():
        one, moved, other = (
            torch.nn.functional.normalize(network(x)[-1].mean((2, 3)), dim=1)
            for x in (china[..., :224, :224], china[..., 1:225, 1:225], flower[..., 100:324, 200:424])
        )
    assert (one * moved).sum() > 0.95
    assert (one * other).sum() < 0.5
