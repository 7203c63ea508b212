import pytest

from normscope.training.schedules import warm_cosine


def test_rates_rise_quickly_and_fall_to_nothing():
    assert warm_cosine(0.0) == pytest.approx(0.2)
    assert warm_cosine(0.05) > 0.98
    rates = [warm_cosine(step / 100) for step in range(5, 100)]
    assert rates == sorted(rates, reverse=True)
    assert warm_cosine(0.999) < 1e-4
