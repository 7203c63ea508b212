import pytest
import torch

from normscope.triangles import packed, unpacked


def matrices(*shape):
    return torch.randn(*shape, 5, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("half", [torch.tril, torch.triu])
def test_a_triangle_takes_little_more_than_half_and_comes_back_bit_by_bit(half, shape, dtype):
    whole = {"a.whitener": half(matrices(*shape)).to(dtype)}
    kept = packed(whole)
    assert [value.shape for value in kept.values()] == [(*shape, 15)]
    again = unpacked(kept)
    assert again.keys() == whole.keys()
    assert again["a.whitener"].dtype == dtype
    assert again["a.whitener"].is_contiguous()
    assert torch.equal(again["a.whitener"], whole["a.whitener"])


@pytest.mark.parametrize(
    "value", [matrices(), matrices(2), torch.randn(4, 5), torch.randn(5), torch.tensor(1.0), torch.ones(3, 1, 1)]
)
def test_all_else_stays_as_it_is(value):
    kept = packed({"a": value})
    assert kept == {"a": value}
    assert unpacked(kept) == {"a": value}


def test_one_matrix_that_is_not_triangular_keeps_all_whole():
    value = matrices(3).tril()
    value[1, 0, 4] = 1
    assert packed({"a": value}) == {"a": value}


def test_a_length_that_is_no_triangle_is_refused():
    with pytest.raises(RuntimeError):
        unpacked({"a.lower": torch.randn(3, 14)})
