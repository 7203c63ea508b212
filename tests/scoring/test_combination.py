import pytest
import torch

from normscope.scoring.combination import combined, share_found, weights_of


def test_one_clear_answer_suffices():
    equal = torch.full((2,), 0.5)
    one, both, none = combined(torch.tensor([[20.0, 0.0], [20.0, 20.0], [0.0, 0.0]]), equal)
    assert none == pytest.approx(0)
    assert both == pytest.approx(20)
    assert 16 < one < 20


def test_a_heavier_score_counts_more():
    nats = torch.tensor([[8.0, 0.0], [0.0, 8.0]])
    first, second = combined(nats, torch.tensor([0.9, 0.1]))
    assert first > second


def test_the_share_found_is_at_the_false_alarm_rate():
    normal = torch.arange(100.0)
    assert share_found(normal, torch.tensor([90.0, 96.0, 200.0, 300.0])) == 0.75
    assert share_found(normal, torch.empty(0)) == 0.5


def codes_like(*, alike):
    torch.manual_seed(0)
    direction = torch.nn.functional.normalize(torch.ones(1, 8))
    noise = torch.randn(50, 8)
    return torch.nn.functional.normalize(direction + 0.05 * noise if alike else noise, dim=1)


def test_alike_images_are_judged_by_their_locations():
    one = torch.tensor([0.5])
    assert weights_of(codes_like(alike=True), one)[1] > 0.9
    assert weights_of(codes_like(alike=False), one)[1] < 0.1
    assert weights_of(codes_like(alike=True), one).sum() == pytest.approx(1)


def test_parts_that_look_at_locations_count_by_the_odds_that_they_find_a_self_made_defect():
    codes = codes_like(alike=True)
    _, first, second = weights_of(codes, torch.tensor([0.5, 0.9]))
    assert second == pytest.approx(9 * first)


def test_no_part_is_deaf():
    weights = weights_of(codes_like(alike=True), torch.tensor([0.0, 1.0]))
    assert weights.min() > 0.015
    assert weights.sum() == pytest.approx(1)
