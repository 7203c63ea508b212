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
    masks = [shape(64, 80) for _ in range(10)]
    assert all(mask.shape == (64, 80) and mask.dtype == torch.bool for mask in masks)
    assert len({tuple(mask.nonzero().float().mean(0).tolist()) for mask in masks}) > 5


def test_the_fillings_of_an_image_are_of_one_family(images, monkeypatch):
    monkeypatch.setattr(defects, "FAMILIES", ((torch.zeros_like,), (torch.ones_like,)))
    changed, where, family = defective(images)
    assert set(family.tolist()) == {0, 1}
    for image, before, inside, kind in zip(changed, images, where, family, strict=True):
        assert ((image > before).any(0) | (image < before).any(0))[inside].all()
        assert torch.where(inside, image, -1).amax() > 0.3 if kind else torch.where(inside, image, 0).abs().amin() < 0.1


@pytest.mark.parametrize("filling", [filling for family in defects.FAMILIES for filling in family])
def test_fillings_keep_the_range(filling, images):
    torch.manual_seed(2)
    filled = filling(images[0]).expand_as(images[0])
    assert filled.abs().max() <= 1
    assert not torch.equal(filled, images[0])
