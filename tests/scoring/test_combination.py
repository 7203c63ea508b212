import pytest
import torch
from sklearn.metrics import roc_auc_score

from normscope.scoring.combination import combined, mean_cosine, share_found, weights_of
from normscope.scoring.survival import fit_survival, survival

KNOWN = torch.tensor(5.0)


def test_one_clear_answer_suffices():
    equal = torch.full((2,), 0.5)
    nats = torch.tensor([[20.0, 0.0], [20.0, 20.0], [0.0, 0.0]])
    one, both, none = combined(nats, equal, torch.tensor(20.0))
    assert none == pytest.approx(0)
    assert both == pytest.approx(20)
    assert 16 < one < 20


def test_a_heavier_score_counts_more():
    nats = torch.tensor([[8.0, 0.0], [0.0, 8.0]])
    first, second = combined(nats, torch.tensor([0.9, 0.1]), KNOWN)
    assert first > second


def test_a_single_score_is_itself_however_far_out():
    nats = torch.tensor([[0.5], [5.0], [40.0], [1e6]])
    torch.testing.assert_close(combined(nats, torch.ones(1), KNOWN), nats[:, 0], rtol=1e-4, atol=0)


def test_what_is_far_out_is_the_most_surprising_still():
    scores = combined(torch.tensor([[300.0, 1.0], [6.0, 6.0], [5.0, 1.0]]), torch.full((2,), 0.5), KNOWN)
    assert (scores.diff() < 0).all()
    assert scores[0] > 40


def test_a_score_by_which_every_new_image_is_far_out_does_not_drown_the_other():
    random = torch.Generator().manual_seed(0)
    normal = torch.randn(200, 2, generator=random)
    fine = torch.randn(200, 2, generator=random) + torch.tensor([20.0, 0.0])  # in another light
    bad = torch.randn(200, 2, generator=random) + torch.tensor([20.0, 4.0])
    reference = fit_survival(normal)
    nats = survival(torch.cat([fine, bad]), reference)
    held_back, straight = (
        roc_auc_score([0] * 200 + [1] * 200, combined(nats, torch.tensor([0.3, 0.7]), known).numpy())
        for known in (reference["known"], torch.tensor(torch.inf))
    )
    assert held_back > 0.9
    assert straight < 0.6


def test_the_share_found_is_at_the_false_alarm_rate():
    normal = torch.arange(100.0)
    assert share_found(normal, torch.tensor([90.0, 96.0, 200.0, 300.0])) == 0.75


def codes_like(*, alike):
    torch.manual_seed(0)
    direction = torch.nn.functional.normalize(torch.ones(1, 8))
    noise = torch.randn(50, 8)
    return torch.nn.functional.normalize(direction + 0.05 * noise if alike else noise, dim=1)


def test_alike_images_are_judged_by_their_locations():
    assert weights_of(codes_like(alike=True), None)[1] > 0.9
    assert weights_of(codes_like(alike=False), None)[1] < 0.1
    assert weights_of(codes_like(alike=True), None).sum() == pytest.approx(1)


def test_the_mean_cosine_is_of_two_different_codes():
    torch.manual_seed(0)
    codes = torch.nn.functional.normalize(torch.rand(6, 8), dim=1)
    cosines = codes @ codes.T
    expected = cosines[~torch.eye(6, dtype=torch.bool)].mean()
    assert mean_cosine(codes) == pytest.approx(float(expected), abs=1e-6)
    assert mean_cosine(codes[:1]) == 1


@pytest.mark.parametrize(("cosine", "least", "most"), [(0.4, 0.9, 1.0), (0.5, 0.4, 0.7), (0.6, 0.0, 0.1)])
def test_photographs_are_judged_as_a_whole_or_not_soon_beyond_half_alike(cosine, least, most):
    """Where the whole finds no self-made defect, its weight is by how alike the images are."""
    rest = torch.eye(200)
    codes = torch.cat([cosine**0.5 * torch.ones(200, 1), (1 - cosine) ** 0.5 * rest], 1)
    assert least < weights_of(codes, torch.tensor([0.01, 0.7, 0.9]))[0] < most


def test_small_images_are_judged_as_a_whole_sooner_than_those_with_room_for_defects():
    codes = torch.nn.functional.normalize(torch.ones(1, 8) + torch.eye(8) * 4, dim=1)
    small, large = weights_of(codes, None), weights_of(codes, torch.tensor([0.5, 0.5]))
    assert 0.5 < small[0] < 0.98
    assert small[0] / small[1] > large[0] / large[1]


def test_alike_images_are_judged_by_what_finds_self_made_defects():
    weights = weights_of(codes_like(alike=True), torch.tensor([0.5, 0.8, 0.9]))
    code, local, head = weights.tolist()
    assert local == pytest.approx(2 * code, rel=0.01)
    assert head == pytest.approx(3 * code, rel=0.01)


def test_images_that_differ_are_judged_as_a_whole_whatever_finds_self_made_defects():
    assert weights_of(codes_like(alike=False), torch.tensor([0.1, 0.8, 0.9]))[0] > 0.9


def test_no_part_is_deaf():
    weights = weights_of(codes_like(alike=True), torch.tensor([0.0, 0.0, 1.0]))
    assert weights.min() > 0.015
    assert weights.sum() == pytest.approx(1)
