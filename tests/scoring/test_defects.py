import numpy as np
import pytest
import torch

from normscope.scoring.defects import HEADS, Rows, fit_heads, hottest, logits, moments, rows_at, sum_at_finest


@pytest.fixture(scope="module")
def head():
    torch.manual_seed(0)
    normal = torch.randn(2000, 6)
    rows = Rows([normal], [normal[:500] + torch.tensor([4.0, 0, 0, 0, 0, 0])], np.zeros(1, np.float32))
    return fit_heads(rows, [np.arange(1)])[0]


def test_it_tells_defects_from_normal_rows(head):
    torch.manual_seed(1)
    maps = torch.randn(2, 6, 8, 8)
    maps[1, 0, 3, 4] += 4
    odds = logits([maps], head)
    assert odds.shape == (2, 8, 8)
    assert odds[1].argmax() == 3 * 8 + 4
    assert (odds[0] < 0).float().mean() > 0.9


def test_each_head_knows_the_images_chosen_for_it():
    torch.manual_seed(4)
    normal = [torch.randn(2000, 2) for _ in range(3)]
    defects = [normal[0][:500] + torch.tensor(by) for by in ([4.0, 0], [0, 4.0], [0, -4.0])]
    rows = Rows(normal, defects, np.zeros(3, np.float32))
    maps = torch.tensor([[4.0, 0], [0, 4.0], [0, -4.0], [0, 0]])[:, :, None, None]
    heads = fit_heads(rows, [np.array([0, 1]), np.array([1, 2]), np.arange(3)])
    found = [(logits([maps], head) > 0).flatten().tolist() for head in heads]
    assert found == [[True, True, False, False], [False, True, True, False], [True, True, True, False]]


def test_several_heads_answer_in_the_mean(head):
    maps = [torch.randn(2, 4, 8, 8), torch.randn(2, 2, 4, 4)]
    each = torch.stack([logits(maps, {name: value[[k]] for name, value in head.items()}) for k in range(HEADS)])
    assert each.std(0).min() > 0
    torch.testing.assert_close(logits(maps, head), each.mean(0))


def test_rows_of_any_scale_are_told_apart():
    torch.manual_seed(5)
    normal = 1000 + 0.01 * torch.randn(2000, 3)
    rows = Rows([normal], [normal[:500] + torch.tensor([0.04, 0, 0])], np.zeros(1, np.float32))
    (head,) = fit_heads(rows, [np.arange(1)])
    maps = torch.stack([normal[:64].T, normal[:64].T]).unflatten(2, (8, 8))
    maps[1, 0] += 0.04
    assert (logits([maps], head) > 0).float().mean((1, 2)).tolist() == pytest.approx([0, 1], abs=0.1)


def test_moments_are_those_of_all_rows_of_the_images_chosen():
    torch.manual_seed(6)
    rows, choices = [50 + torch.randn(m, 3) for m in (1, 30, 0, 7)], [np.array([0, 1]), np.array([2, 3, 1])]
    mean, deviation = moments(rows, choices)
    for place, choice in enumerate(choices):
        chosen = torch.cat([rows[i] for i in choice])
        torch.testing.assert_close(mean[place], chosen.mean(0))
        torch.testing.assert_close(deviation[place], chosen.std(0))


def test_the_first_layer_may_come_before_the_interpolation(head):
    torch.manual_seed(2)
    fine, coarse = torch.randn(1, 2, 8, 8), torch.randn(1, 4, 4, 4)
    whole = torch.cat([fine, sum_at_finest([torch.zeros(1, 4, 8, 8), coarse])], 1)
    assert torch.allclose(logits([fine, coarse], head), logits([whole], head), atol=1e-4)


def test_rows_are_the_maps_at_the_locations_wanted():
    torch.manual_seed(3)
    fine, coarse, wanted = torch.randn(2, 2, 8, 8), torch.randn(2, 4, 4, 4), torch.zeros(2, 8, 8, dtype=torch.bool)
    wanted[0, 5, 2] = True
    first, none = rows_at([fine, coarse], wanted, 10)
    whole = sum_at_finest([torch.zeros(2, 4, 8, 8), coarse])
    torch.testing.assert_close(first, torch.cat([fine[0, :, 5, 2], whole[0, :, 5, 2]])[None])
    assert none.shape == (0, 6)
    assert len(rows_at([fine], torch.ones(2, 8, 8, dtype=torch.bool), 10)[1]) == 10


def test_the_hottest_of_an_image_smaller_than_that():
    assert torch.equal(hottest(torch.arange(4.0).view(1, 2, 2)), torch.tensor([1.5]))
