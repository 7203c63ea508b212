import pytest
import torch

from normscope.scoring.centre import centre_of, squared_distance


def test_the_centre_is_the_mean_code_with_entries_near_nought_pushed_away():
    codes = torch.tensor([[1.0, 0.3, 0.04, -0.04, -0.3, 0.0], [3.0, -0.1, 0.0, 0.0, 0.1, 0.0]])
    assert centre_of(codes).tolist() == pytest.approx([2.0, 0.1, 0.1, -0.1, -0.1, 0.1])


def test_no_entry_of_a_centre_is_nought():
    """Which stands for a centre that is not set."""
    assert centre_of(torch.zeros(3, 4)).all()


def test_the_distance_of_each_code_to_the_centre():
    codes = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
    assert squared_distance(codes, torch.tensor([0.0, 0.0])).tolist() == [0.0, 25.0, 2.0]
    assert squared_distance(codes, torch.tensor([3.0, 1.0])).tolist() == [10.0, 9.0, 4.0]
