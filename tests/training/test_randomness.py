import numpy as np
import pytest
import torch

from normscope.training.randomness import permutation, seeded


def drawn(*key):
    with seeded(*key):
        return torch.rand(4)


def test_the_key_alone_decides_what_is_drawn():
    first = drawn(3, 0, 7)
    torch.rand(5)
    assert torch.equal(drawn(3, 0, 7), first)


def test_every_part_of_the_key_and_its_place_count():
    keys = [(3, 0, 7), (4, 0, 7), (3, 1, 7), (3, 0, 8), (3, 7, 0), (7, 0, 3), (3, 2**31)]
    draws = {tuple(drawn(*key).tolist()) for key in keys}
    assert len(draws) == len(keys)


def test_the_generator_of_the_caller_is_left_alone():
    before = torch.get_rng_state()
    drawn(1)
    assert torch.equal(torch.get_rng_state(), before)

    def fail():
        with seeded(1):
            torch.rand(3)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    assert torch.equal(torch.get_rng_state(), before)


def test_inside_another_key_the_outer_one_goes_on_as_if_nothing_had_been():
    with seeded(1):
        torch.rand(1)
        plain = torch.rand(2)
    with seeded(1):
        torch.rand(1)
        drawn(2)
        assert torch.equal(torch.rand(2), plain)


def test_a_permutation_follows_from_its_key_and_draws_on_nothing_else():
    state = np.random.get_state()[1].copy()
    one = permutation(50, 1, 2)
    assert sorted(one.tolist()) == list(range(50))
    assert np.array_equal(permutation(50, 1, 2), one)
    assert not np.array_equal(permutation(50, 1, 3), one)
    assert not np.array_equal(permutation(50, 2, 2), one)
    assert np.array_equal(np.random.get_state()[1], state)
