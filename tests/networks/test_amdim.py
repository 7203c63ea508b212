import pytest
import torch
import torch.nn.functional as F
from torch import nn

from normscope.errors import SettingError
from normscope.networks.amdim import PRESETS, Amdim, LocalProjector, Preset, ResidualConvolution, encoder


def published(preset: str) -> Amdim:
    with torch.device("meta"):  # shapes and counts only, no memory
        return encoder(preset)


def images(n: int, channels: int, height: int, width: int | None = None, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, channels, height, width or height, generator=generator) * 2 - 1


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("preset", "sides", "channels"),
    [
        ("small", [30, 30, 14, 7, 5, 3, 1], [128, 128, 256, 512, 512, 512, 1024]),
        ("big", [64, 62, 30, 14, 7, 5, 3, 1], [192, 192, 384, 768, 1536, 1536, 1536, 1536]),
    ],
)
def test_every_map_has_the_size_of_the_papers_table(preset, sides, channels):
    network = published(preset)
    stem = [layer for layer in network.stem if not isinstance(layer, nn.ReLU)]
    maps = []
    for layer in [*stem, *network.local_blocks, *network.code_blocks]:
        layer.register_forward_hook(lambda _, __, output: maps.append(output.shape[1:]))
    side = network.native
    features = network(torch.zeros(2, 3, side, side, device="meta"))
    assert maps == [torch.Size([c, s, s]) for c, s in zip(channels, sides, strict=True)]
    assert features.code.shape == (2, channels[-1])
    assert features.local.shape == (2, network.local_channels, 5, 5)


@pytest.mark.parametrize(
    ("preset", "count"),
    [("small", 27_758_080), ("medium", 4_810_496), ("slim", 990_080), ("tiny", 221_120), ("big", 194_251_200)],
)
def test_parameters_are_those_of_the_table(preset, count):
    # Expanded by hand from the table, in units of w²; d is the size of the code, e = depth − 1.
    p = PRESETS[preset]
    w2, e = p.width**2, p.depth - 1
    if p.native == 32:
        stem = 27 * p.width + p.width + 2 * w2
        blocks = (32 + 4 + 8 * e) + (32 + 16 + 32 * e) + 2 * (144 + 16 + 32 * e)
        last = 9 * 4 * p.width * p.code + p.code**2
    else:
        stem = 75 * p.width + p.width + 9 * w2 + p.width
        blocks = (32 + 4 + 8 * e) + (128 + 16 + 32 * e) + (128 + 64 + 128 * e) + 2 * (576 + 64 + 128 * e)
        last = 9 * 8 * p.width * p.code + p.code**2
    assert parameters(published(preset)) == stem + blocks * w2 + last == count


@pytest.mark.parametrize(("side", "channels"), [(28, 3), (96, 1)])
def test_any_size_grey_or_colour(side, channels):
    features = encoder("tiny", channels).eval()(images(2, channels, side))
    assert features.code.shape == (2, 128)
    assert features.local.shape == (2, 64, 5, 5)
    assert features.code.isfinite().all()


def test_an_oblong_image_is_resized_to_the_native_square():
    network, oblong = encoder("tiny").eval(), images(1, 3, 40, 70)
    square = F.interpolate(oblong, (32, 32), mode="bilinear", antialias=True)
    torch.testing.assert_close(network(oblong).code, network(square).code)


def test_grey_is_repeated_in_a_colour_encoder():
    network, grey = encoder("tiny").eval(), images(2, 1, 32)
    torch.testing.assert_close(network(grey).code, network(grey.repeat(1, 3, 1, 1)).code)


@pytest.mark.parametrize(
    ("preset", "output_norm"), [(PRESETS["tiny"], True), (Preset(native=128, width=4, code=32, depth=2), False)]
)
def test_gradients_reach_every_parameter(preset, output_norm):
    network = Amdim(preset, output_norm=output_norm)
    code = network(images(4, 3, preset.native)).code
    (code * torch.linspace(-1, 1, code.numel()).view_as(code)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())


def test_eval_treats_each_image_alone():
    network, batch = encoder("tiny", output_norm=True), images(6, 3, 32)
    network(batch)  # moves the running statistics
    network.eval()
    together = network(batch)
    for i in range(6):
        alone = network(batch[i : i + 1])
        torch.testing.assert_close(alone.code[0], together.code[i], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(alone.local[0], together.local[i], rtol=1e-4, atol=1e-5)


def test_output_norm_standardises_the_code():
    code = encoder("tiny", output_norm=True)(images(16, 3, 32)).code
    torch.testing.assert_close(code.mean(0), torch.zeros(128), rtol=0, atol=1e-4)
    assert parameters(encoder("tiny", output_norm=True)) == 221_120 + 2 * 128


def test_zero_initialisation_leaves_the_pooled_stem():
    network, x = encoder("tiny", initialisation="zero").eval(), images(2, 3, 32)
    pooled = F.conv2d(x, network.stem[0].weight, network.stem[0].bias).relu()
    for kernel, stride in [(4, 2), (2, 2), (3, 1), (3, 1), (3, 1)]:
        pooled = F.avg_pool2d(pooled, kernel, stride)
    code = network(x).code
    torch.testing.assert_close(code[:, :16], pooled.flatten(1))
    assert not code[:, 16:].any()


def test_residual_convolution_by_hand():
    layer = ResidualConvolution(1, 2, kernel=2, stride=2)
    with torch.no_grad():
        layer.first.weight.copy_(torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]], [[[0.0, 0.0], [0.0, -1.0]]]]))
        layer.second.weight.copy_(torch.tensor([[2.0, 0.0], [1.0, 5.0]]).view(2, 2, 1, 1))
    x = torch.tensor([[[[1.0, 2.0], [3.0, 6.0]]]])
    # first: (1, −6), ReLU: (1, 0), second: (2, 1); shortcut: mean 3 and a zero channel.
    assert layer(x).flatten().tolist() == [5.0, 1.0]
    # −1, −3, −9, −3: first (−1, 3), ReLU (0, 3), second (0, 15), mean −4: a sum below zero stays below zero.
    assert layer(torch.tensor([[[[-1.0, -3.0], [-9.0, -3.0]]]])).flatten().tolist() == [-4.0, 15.0]


def test_a_code_smaller_than_the_local_map_is_possible():
    network = Amdim(Preset(width=8, code=4, depth=1))
    assert network(images(2, 3, 32)).code.shape == (2, 4)


def test_local_projector_starts_near_the_identity():
    local = images(2, 6, 5)
    projected = LocalProjector(6, 9, initialisation="zero")(local)
    assert projected.shape == (2, 9, 5, 5)
    # Six weights of at most 0.01 times values of at most 1, and a bias of at most 1/√6.
    torch.testing.assert_close(projected[:, :6], local, rtol=0, atol=0.06 + 6**-0.5)


def test_local_projector_treats_each_location_alone():
    projector, local = LocalProjector(8, 4, output_norm=True).eval(), images(1, 8, 5)
    whole = projector(local)
    torch.testing.assert_close(projector(local[:, :, 2:3, 3:4]), whole[:, :, 2:3, 3:4])
    assert parameters(projector) == 8 * 4 + 4 * 4 + (8 * 4 + 4) + 2 * 4


def test_errors_name_what_is_allowed():
    with pytest.raises(SettingError, match="no encoder 'huge'; choose from small, medium, slim, tiny, big"):
        encoder("huge")
    with pytest.raises(SettingError, match="1 or 3 channels, not 4"):
        encoder("tiny", channels=4)
    with pytest.raises(SettingError, match="no initialisation 'ones'; choose from kaiming, zero"):
        encoder("tiny", initialisation="ones")
    with pytest.raises(SettingError, match="32 or 128"):
        Amdim(Preset(native=64))
    with pytest.raises(SettingError, match="at least 1"):
        Amdim(Preset(depth=0))
    with pytest.raises(ValueError, match="images have 3 channels; this encoder takes 1"):
        encoder("tiny", channels=1)(images(1, 3, 32))
