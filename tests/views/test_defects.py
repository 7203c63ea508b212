import pytest
import torch

from normscope.views import defects
from normscope.views.defects import defective


@pytest.fixture
def images():
    torch.manual_seed(0)
    ramp = torch.linspace(-1, 1, 96).expand(8, 3, 96, 96)
    return (ramp + 0.1 * torch.randn(8, 1, 96, 96)).clamp(-1, 1)


def test_what_changed_is_marked_and_the_rest_is_as_it_was(images):
    changed, where, _ = defective(images)
    difference = (changed - images).abs().amax(1)
    assert (difference[~where] <= defects.VISIBLE).all()
    assert (difference[where] > defects.VISIBLE).all()
    assert changed.abs().max() <= 1


def test_defects_are_small_and_nearly_every_image_has_one(images):
    share = defective(images)[1].float().mean((1, 2))
    assert (share > 0).float().mean() > 0.8
    assert 0 < share.mean() < 0.2


def test_the_given_images_are_left_alone(images):
    before = images.clone()
    defective(images)
    assert torch.equal(images, before)


@pytest.mark.parametrize("shape", defects.SHAPES)
def test_shapes_differ_from_draw_to_draw(shape):
    torch.manual_seed(1)
    drawn = [shape(64, 80) for _ in range(10)]
    assert all(inside.shape == torch.empty(64, 80)[box].shape and inside.dtype == torch.bool for box, inside in drawn)
    assert len({int(inside.count_nonzero()) for _, inside in drawn}) > 5
    assert len({(rows.start, columns.start) for (rows, columns), _ in drawn}) > 5


@pytest.mark.parametrize("shape", defects.SHAPES)
def test_a_shape_and_its_faded_edge_are_in_their_box(shape):
    torch.manual_seed(2)
    for _ in range(200):
        (rows, columns), inside = shape(200, 300)
        faded = defects.fading(inside, 200) > 0
        edges = {0: rows.start > 0, -1: rows.stop <= 200}, {0: columns.start > 0, -1: columns.stop <= 300}
        for lines, own in zip((faded, faded.T), edges, strict=True):
            assert not any(lines[end].any() for end, in_the_image in own.items() if in_the_image)


def black(image, box):
    return torch.zeros(3, 1, 1)


def white(image, box):
    return torch.ones(3, 1, 1)


def test_the_fillings_of_an_image_are_of_one_family(images, monkeypatch):
    monkeypatch.setattr(defects, "FAMILIES", ((black,), (white,)))
    changed, where, family = defective(images)
    assert set(family.tolist()) == {0, 1}
    for image, before, inside, kind in zip(changed, images, where, family, strict=True):
        assert ((image > before).any(0) | (image < before).any(0))[inside].all()
        assert torch.where(inside, image, -1).amax() > 0.3 if kind else torch.where(inside, image, 0).abs().amin() < 0.1


@pytest.mark.parametrize("filling", [filling for family in defects.FAMILIES for filling in family])
def test_fillings_keep_the_range(filling, images):
    torch.manual_seed(2)
    box = slice(20, 50), slice(0, 40)
    filled = filling(images[0], box).expand(3, 30, 40)
    assert filled.abs().max() <= 1
    assert not torch.equal(filled, images[0][:, *box])


@pytest.mark.parametrize("filling", [defects.elsewhere, defects.displaced, defects.shade, defects.blur])
def test_a_filling_of_a_box_is_that_of_the_image_there(filling, images):
    box, every = (slice(3, 50), slice(60, 96)), (slice(0, 96), slice(0, 96))
    torch.manual_seed(3)
    part = filling(images[0], box)
    torch.manual_seed(3)
    assert torch.allclose(part, filling(images[0], every)[:, *box], atol=1e-6)
