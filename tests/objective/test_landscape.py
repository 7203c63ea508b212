from math import exp, log, sqrt

import pytest
import torch

from normscope.objective.critics import contrast, dot
from normscope.objective.entropy import gaussian, gaussian_sum, l2, laplace, laplace_sum
from normscope.objective.information import infonce
from normscope.objective.landscape import optimum


def loss_of(codes, entropy, beta, scale):
    """L_nce + β·H of Algorithm 1, by the functions that train."""
    positive, negative = contrast(dot(codes, codes, scale))
    information = infonce(positive, negative)
    return float(log(1 + negative.shape[1]) - information + beta * entropy(codes))


def sparse_codes(images, size, active, value):
    """Two equal views; image i alone uses entries i·active and the next ones."""
    codes = torch.zeros(images, size, dtype=torch.float64)
    for i in range(images):
        codes[i, i * active : (i + 1) * active] = value
    return torch.cat([codes, codes])


@pytest.mark.parametrize("entropy", [laplace, gaussian, l2])
@pytest.mark.parametrize(("images", "size", "beta"), [(4, 32, 0.2), (8, 64, 0.3)])
def test_the_loss_is_what_training_would_see_of_such_codes(entropy, images, size, beta):
    scale = sqrt(size)
    best = optimum(entropy, beta, size, scale, images)
    assert best.alive
    codes = sparse_codes(images, size, best.active, best.value)
    assert loss_of(codes, entropy, beta, scale) == pytest.approx(best.loss, abs=1e-9)


def test_no_other_length_or_number_of_entries_is_better():
    images, size, beta, scale = 8, 64, 1.0, 8.0
    best = optimum(laplace, beta, size, scale, images)
    for active in range(1, 9):
        for value in torch.linspace(0.5, 3, 26).tolist():
            codes = sparse_codes(images, size, active, value * best.value)
            assert loss_of(codes, laplace, beta, scale) >= best.loss - 1e-4  # the step of the grid


@pytest.mark.parametrize(
    ("entropy", "size", "clip", "loss", "active", "most_active"),
    [
        (laplace, 1024, "root", 0.36, 1, 16),
        (laplace, 128, "root", 1.53, 1, 2),
        (gaussian, 1024, "root", 3.73, 1, 16),
        (gaussian, 128, "root", log(127), 0, 0),
        (laplace, 1024, "size", 1.79, 1, 8),
        (laplace, 128, "size", 4.61, 1, 1),
        (gaussian, 1024, "size", log(127), 0, 0),
        (laplace_sum, 1024, "root", log(127), 0, 0),
        (gaussian_sum, 1024, "root", log(127), 0, 0),
        (l2, 1024, "size", log(127), 0, 0),
    ],
)
def test_the_readings_of_the_paper_at_its_beta(entropy, size, clip, loss, active, most_active):
    scale = size if clip == "size" else sqrt(size)
    best = optimum(entropy, 20.0, size, scale)
    assert best.loss == pytest.approx(loss, abs=0.005)
    assert (best.active, best.most_active) == (active, most_active)
    assert best.collapsed == pytest.approx(log(127))


def test_without_entropy_the_longest_code_is_best():
    best = optimum(laplace, 0.0, 1024, 32.0)
    assert best.loss == pytest.approx(126 * exp(-20), rel=0.02)


@pytest.mark.parametrize(("size", "scale"), [(1024, 32.0), (1024, 1024.0), (128, 128.0)])
def test_squared_norms_collapse_once_a_unit_of_similarity_costs_more_than_it_gains(size, scale):
    # z·z costs β·c1/d a unit of z·z / c1; log(1 + m·e^−s) is convex and falls fastest at 0, by m / (1 + m) a unit.
    critical = 126 / 127 * size / scale
    assert optimum(gaussian, 0.99 * critical, size, scale).alive
    assert not optimum(gaussian, critical, size, scale).alive
