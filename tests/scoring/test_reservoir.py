import torch

from normscope.scoring.reservoir import sampled
from normscope.training.randomness import seeded


def test_a_sample_has_as_many_rows_as_wanted_in_order_and_every_one_as_likely():
    batches = [torch.arange(start, start + 10) for start in range(0, 50, 10)]
    assert sampled(batches, 50).tolist() == list(range(50))
    counts = torch.zeros(50)
    with seeded(0):
        for _ in range(400):
            rows = sampled(batches, 20)
            assert rows.tolist() == sorted(set(rows.tolist()))
            assert len(rows) == 20
            counts[rows] += 1
    # 400 draws of 20 in 50: 160 of each, with a standard deviation of 9.8.
    assert (counts - 160).abs().max() < 4.5 * 9.8
