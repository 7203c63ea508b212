from math import exp, log, tanh

import pytest
import torch

from normscope.objective.critics import contrast, contrast_each, cosine, dot, global_to_each, global_to_local, soft_clip
from normscope.objective.information import infonce


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def algorithm_one(s):
    """L_nce of the paper's Algorithm 1 from its clipped s; rows 2k - 1 and 2k are the views of image k."""
    size = len(s)
    s_max = max(max(row) for row in s)
    shift = [[value - s_max for value in row] for row in s]

    def loss(i, j):
        return -log(exp(shift[i][j]) / sum(exp(shift[i][k]) for k in range(size) if k != i))

    return sum(loss(2 * k, 2 * k + 1) + loss(2 * k + 1, 2 * k) for k in range(size // 2)) / size


@pytest.mark.parametrize("n", [1, 5])
def test_infonce_of_contrast_is_algorithm_one(n):
    first, second, c1 = draw(n, 8, seed=1), draw(n, 8, seed=2), 3.0
    z = [code for pair in zip(first, second, strict=True) for code in pair]
    s = [[20 * tanh(float(a @ b) / (c1 * 20)) for b in z] for a in z]
    codes = torch.cat([first, second])
    assert infonce(*contrast(dot(codes, codes, c1))) == pytest.approx(log(2 * n - 1) - algorithm_one(s))


def test_infonce_of_contrast_between_codes_and_maps_is_algorithm_three():
    n, c1 = 3, 5.0
    codes, maps = draw(2 * n, 4, seed=1), draw(2 * n, 4, 2, 3, seed=2)
    order = [view * n + k for k in range(n) for view in (0, 1)]
    every = [
        (i, j, float(sum(codes[i] @ maps[j, :, r, c] for r in range(2) for c in range(3))))
        for i in order
        for j in order
    ]
    flat = [20 * tanh(score / (c1 * 20)) for _, _, score in every]
    s = [flat[row * 2 * n : (row + 1) * 2 * n] for row in range(2 * n)]
    assert infonce(*contrast(global_to_local(codes, maps, c1))) == pytest.approx(log(2 * n - 1) - algorithm_one(s))


def test_contrast_picks_the_other_view_and_leaves_out_the_code_itself():
    n = 4
    scores = torch.arange(64.0).view(8, 8)
    positive, negative = contrast(scores)
    assert negative.shape == (8, 6)
    for i in range(8):
        other = (i + n) % 8
        assert positive[i] == scores[i, other]
        assert sorted(negative[i].tolist()) == [scores[i, j].item() for j in range(8) if j not in (i, other)]


def test_contrast_gives_every_score_but_the_diagonal_one_gradient():
    scores = draw(6, 6).requires_grad_()
    positive, negative = contrast(scores)
    (positive.sum() + negative.sum()).backward()
    assert torch.equal(scores.grad, 1 - torch.eye(6, dtype=torch.float64))


def test_soft_clip_is_linear_near_zero_and_bounded_far_away():
    assert soft_clip(torch.tensor(0.5), scale=10) == pytest.approx(0.05, rel=1e-5)
    assert soft_clip(torch.tensor(1e6), scale=10) == pytest.approx(20)
    assert soft_clip(torch.tensor(-1e6), scale=10, bound=7) == pytest.approx(-7)
    assert soft_clip(torch.tensor(60.0), scale=3) == pytest.approx(20 * tanh(1))


def test_dot_is_raw_and_cosine_is_not():
    a, b = draw(3, 5, seed=1), draw(4, 5, seed=2)
    assert dot(a, b, 2.0).shape == cosine(a, b, 2.0).shape == (3, 4)
    assert dot(a, b, 2.0)[1, 2] == pytest.approx(20 * tanh(float(a[1] @ b[2]) / 40))
    angle = torch.nn.functional.cosine_similarity(a[1], b[2], dim=0).item()
    assert cosine(a, b, 0.5)[1, 2] == pytest.approx(angle / 0.5)
    torch.testing.assert_close(cosine(9 * a, b, 0.5), cosine(a, b, 0.5))
    assert not torch.allclose(dot(9 * a, b, 0.5), dot(a, b, 0.5))


def test_cosine_of_a_zero_code_is_finite():
    a = torch.zeros(2, 3, requires_grad=True)
    cosine(a, torch.ones(2, 3), 0.1).sum().backward()
    assert a.grad.isfinite().all()


def test_global_to_each_scores_every_location_alone():
    code, local = draw(2, 4, seed=1), draw(3, 4, 2, 5, seed=2)
    each = global_to_each(code, local, 3.0)
    assert each.shape == (2, 3, 10)
    assert each[1, 2, 1 * 5 + 3] == pytest.approx(20 * tanh(float(code[1] @ local[2, :, 1, 3]) / 60))


def test_global_to_local_clips_after_the_sum_and_not_before():
    code, local = torch.ones(1, 1), torch.full((1, 1, 2, 2), 1000.0)
    assert global_to_local(code, local, 1.0).item() == pytest.approx(20)
    assert global_to_each(code, local, 1.0).sum() == pytest.approx(80)


def test_contrast_each_makes_every_location_of_the_other_view_a_positive_of_its_own():
    n, locations = 3, 4
    scores = torch.arange(6.0 * 6 * locations).view(6, 6, locations)
    positive, negative = contrast_each(scores)
    assert positive.shape == (6 * locations,)
    assert negative.shape == (6 * locations, 4 * locations)
    for i in range(6):
        other = (i + n) % 6
        against = scores[[i] * 4, [j for j in range(6) if j not in (i, other)]].flatten().tolist()
        for place in range(locations):
            row = i * locations + place
            assert positive[row] == scores[i, other, place]
            assert sorted(negative[row].tolist()) == sorted(against)


def test_contrast_each_of_a_single_location_is_contrast():
    scores = draw(8, 8)
    for each, plain in zip(contrast_each(scores[:, :, None]), contrast(scores), strict=True):
        assert torch.equal(each, plain)
