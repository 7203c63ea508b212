from math import tanh

import pytest
import torch

from normscope.scoring.norm import norm, norm_with_local


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_norm_is_algorithm_two_negated():
    z, c1, c2 = 5 * draw(6, 8), 8.0, 20.0
    for i, score in enumerate(norm(z, c1)):
        s = sum(float(entry) * float(entry) for entry in z[i])
        assert score == pytest.approx(-c2 * tanh(s / (c1 * c2)))


def test_norm_with_local_is_algorithm_five_negated():
    g, local, c1, c2 = 2 * draw(6, 8, seed=1), draw(6, 8, 5, 4, seed=2), 8.0, 20.0
    for k, score in enumerate(norm_with_local(g, local, c1)):
        s_gvg = float(g[k] @ g[k])
        s_gvl = sum(float(g[k] @ local[k, :, row, column]) for row in range(5) for column in range(4))
        assert score == pytest.approx(-c2 * tanh((s_gvg + s_gvl) / (c1 * c2)))


def test_long_codes_are_the_normal_ones():
    direction = torch.nn.functional.normalize(draw(1, 16))
    codes = torch.arange(1.0, 6.0)[:, None] * direction
    assert norm(codes, 16.0).diff().lt(0).all()
    local = codes[:, :, None, None].expand(-1, -1, 5, 5)
    assert norm_with_local(codes, local, 16.0).diff().lt(0).all()


def test_a_map_that_disagrees_with_its_code_is_anomalous():
    code = draw(4, 8)
    local = code[:, :, None, None].expand(-1, -1, 3, 3)
    assert (norm_with_local(code, -local, 8.0) > norm_with_local(code, local, 8.0)).all()
