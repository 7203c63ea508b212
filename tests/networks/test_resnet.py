import pytest
import torch

from normscope.networks.resnet import ResNet, layout


def images(n, channels, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(n, channels, size, size, generator=generator) - 1


def block(before, after, new_shape):
    """Two batch norms, two 3×3 convolutions, and the shortcut's 1×1 convolution where the shape changes."""
    return 2 * before + 9 * before * after + 2 * after + 9 * after**2 + (before * after if new_shape else 0)


def parameters(channels, width, depth, halvings):
    w = width
    stem = 16 * channels * w + (halvings - 1) * (2 * w + 16 * w**2)
    first = block(w, w, False) + block(w, 2 * w, True) + block(2 * w, 4 * w, True)
    further = (depth - 1) * sum(block(v, v, False) for v in (w, 2 * w, 4 * w))
    return stem + first + further + 2 * 4 * w


@pytest.mark.parametrize(("channels", "size", "side"), [(1, 28, 4), (3, 33, 4), (3, 64, 8), (3, 65, 4), (3, 256, 8)])
def test_every_size_gives_a_code_and_a_small_map(channels, size, side):
    net = ResNet(channels, width=4, size=size)
    code, local = net(images(2, channels, size))
    assert code.shape == (2, 16)
    assert local.shape == (2, 16, side, side)
    assert net.dimension == 16
    assert code.isfinite().all()


def test_the_code_is_the_mean_of_the_map():
    code, local = ResNet(width=8)(images(4, 3, 32))
    torch.testing.assert_close(code, local.flatten(2).mean(2))
    assert code.std(0).max() > 0


@pytest.mark.parametrize(
    ("channels", "width", "depth", "size", "halvings"), [(1, 4, 1, 64, 1), (3, 6, 2, 128, 2), (3, 4, 3, 256, 3)]
)
def test_width_and_depth_give_the_parameters_of_the_closed_form(channels, width, depth, size, halvings):
    net = ResNet(channels, width, depth, size)
    assert sum(p.numel() for p in net.parameters()) == parameters(channels, width, depth, halvings)


def test_the_default_is_one_block_a_stage_of_16_channels_and_has_no_bias():
    net = ResNet().eval()
    assert sum(p.numel() for p in net.parameters()) == parameters(3, 16, 1, 1)
    x = images(2, 3, 32)
    torch.testing.assert_close(net(2 * x).code, 2 * net(x).code)  # as ReLU scales and offsets are nought at first


def test_eval_output_does_not_depend_on_the_batch():
    net = ResNet(width=8, depth=2, size=80)
    net(images(8, 3, 80, seed=1))  # so that running statistics are not the initial ones
    net.eval()
    x = images(6, 3, 80)
    with torch.no_grad():
        together = net(x).code
        alone = torch.cat([net(image[None]).code for image in x])
    torch.testing.assert_close(alone, together, atol=1e-5, rtol=1e-4)


def test_gradients_reach_every_parameter():
    net = ResNet(width=4, depth=2, size=80)
    net(images(8, 3, 80)).code.square().sum().backward()
    missing = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert missing == []


@pytest.mark.parametrize("depth", [1, 2])
def test_stages_end_in_the_local_map(depth):
    net = ResNet(3, 8, depth, 32).eval()
    x = images(2, 3, 32)
    first, second, last = net.stages(x)
    assert [tuple(m.shape[1:]) for m in (first, second, last)] == [(8, 16, 16), (16, 8, 8), (32, 4, 4)]
    assert torch.equal(last, net(x).local)


def test_layout_tells_the_quarters_of_the_image_apart():
    a, b = torch.zeros(1, 2, 4, 4), torch.zeros(1, 2, 4, 4)
    a[:, 0, :2, :2], b[:, 0, 2:, 2:] = 5.0, 1.0
    first, second = layout([a, a]), layout([b, a])
    assert first.shape == (1, 16)
    assert first.norm() == pytest.approx(2**0.5)  # each map has length 1 whatever its scale
    assert first[0, 0] == 1
    assert second[0, 3] == 1
