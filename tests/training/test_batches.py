from itertools import chain, islice

import numpy as np
import pytest
import torch

from normscope.errors import SettingError
from normscope.training.batches import drawn, shuffled, steps_per_epoch, to_float

CPU = torch.device("cpu")


def batches(n, size, count, step=0, key=(0, 0)):
    return [batch.tolist() for batch in islice(shuffled(n, size, step, *key), count)]


@pytest.mark.parametrize(("n", "size"), [(12, 4), (15, 4)])
def test_an_epoch_visits_each_image_once_but_for_the_incomplete_rest(n, size):
    per_epoch = steps_per_epoch(n, size)
    assert per_epoch == n // size
    for epoch in range(3):
        seen = list(chain(*batches(n, size, per_epoch, epoch * per_epoch)))
        assert len(seen) == len(set(seen)) == n - n % size
        assert set(seen) <= set(range(n))


def test_the_rest_left_out_differs_from_epoch_to_epoch():
    left_out = {frozenset(range(13)) - set(chain(*batches(13, 4, 3, 3 * epoch))) for epoch in range(20)}
    assert len(left_out) > 5


def test_epochs_and_keys_have_orders_of_their_own():
    orders = [
        batches(40, 8, 5),
        batches(40, 8, 5, step=5),
        batches(40, 8, 5, key=(0, 1)),
        batches(40, 8, 5, key=(1, 0)),
    ]
    assert all(one != other for i, one in enumerate(orders) for other in orders[:i])


def test_from_any_step_on_the_order_is_that_of_a_run_that_never_stopped():
    whole = batches(13, 4, 20)
    for step in (0, 2, 3, 7):
        assert batches(13, 4, 8, step) == whole[step : step + 8]


def test_a_folder_smaller_than_a_batch_is_one_batch():
    assert steps_per_epoch(5, 8) == 1
    assert batches(5, 8, 3) == [[0, 1, 2, 3, 4]] * 3


@pytest.mark.parametrize("size", [0, -3])
def test_a_batch_without_images_is_refused(size):
    with pytest.raises(SettingError, match=f"batch_size is {size}; give 1 or more"):
        steps_per_epoch(10, size)


def test_pixels_become_floats_from_minus_one_to_one():
    x = to_float(np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16).repeat(3, 1), CPU)
    assert x.dtype == torch.float32
    assert (x.min(), x.max()) == (-1, 1)
    assert x[0, 0, 7, 15] == pytest.approx(127 / 127.5 - 1)
    assert x.is_contiguous(memory_format=torch.channels_last)


def test_labelled_anomalies_are_drawn_without_replacement_at_least_one():
    known, normal = torch.arange(20.0).view(20, 1, 1, 1), torch.zeros(8, 1, 1, 1)
    few = drawn(known, normal, 0.25).flatten().tolist()
    assert len(few) == len(set(few)) == 2
    assert len({tuple(drawn(known, normal, 0.25).flatten().tolist()) for _ in range(9)}) > 1
    assert len(drawn(known, normal, 0.01)) == 1
    assert len(drawn(known[:1], normal, 0.25)) == 1
    assert drawn(None, normal, 0.25).shape == (0, 1, 1, 1)
