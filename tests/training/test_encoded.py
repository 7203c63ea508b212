from dataclasses import replace

import numpy as np
import pytest
import torch

from normscope.training.encoded import Cache, Encoded
from normscope.training.method import Method
from normscope.training.observer import Observer

CPU = torch.device("cpu")
PIXELS = np.arange(5, dtype=np.uint8)[:, None, None, None].repeat(3, 1) * 51
FLOATS = pytest.approx([-1, -0.6, -0.2, 0.2, 0.6])


class Doubling(Method):
    """Its `encode` notes how many images it was given."""

    def __init__(self):
        super().__init__(None, (3, 1, 1))
        self.given = []

    def encode(self, images):
        self.given.append(len(images))
        return 2 * images[:, 0, 0]


def plain(**kwargs):
    return Encoded(Method(None, (3, 1, 1)), PIXELS, CPU, 2, **kwargs)


def test_every_image_comes_once_in_order_and_again():
    assert [len(batch) for batch in plain()] == [2, 2, 1]
    images = plain()
    for _ in range(2):
        assert torch.cat(list(images))[:, 0, 0, 0].tolist() == FLOATS


@pytest.mark.parametrize(("shape", "most"), [((256, 256), 256), ((28, 28), 300), ((1024, 1024), 16), ((512, 1024), 32)])
def test_large_images_come_in_smaller_batches(shape, most):
    pixels = np.broadcast_to(np.uint8(0), (300, 3, *shape))
    images = Encoded(Method(None, (3, *shape)), pixels, CPU, 300)
    assert len(next(iter(images))) == most


def test_a_subset_has_its_own_order_and_a_subset_of_it_too():
    chosen = plain().subset(np.array([4, 0, 2]))
    assert torch.cat(list(chosen))[:, 0, 0, 0].tolist() == pytest.approx([0.6, -1, -0.2])
    assert torch.cat(list(chosen.subset(np.array([2, 0]))))[:, 0, 0, 0].tolist() == pytest.approx([-0.2, 0.6])
    assert len(chosen) == 3


def test_an_observer_is_told_what_is_done_to_how_many():
    told = []

    class Told(Observer):
        def images(self, doing, done, of):
            told.append((doing, done, of))

    list(replace(plain(), doing="counting", observer=Told()))
    assert told == [("counting", done, 5) for done in (0, 2, 4, 5)]


def test_no_image_goes_through_an_encoder_twice():
    method = Doubling()
    images = Encoded(method, PIXELS, CPU, 2)
    first = torch.cat(list(images.subset(np.array([0, 2, 4]))))
    assert method.given == [2, 1]
    again = torch.cat(list(images))
    assert method.given == [2, 1, 1, 1]
    assert again[[0, 2, 4]].tolist() == first.tolist()
    assert again[:, 0].tolist() == pytest.approx([-2, -1.2, -0.4, 0.4, 1.2])
    assert sum(method.given) == len(PIXELS)


def test_what_does_not_fit_into_the_cache_is_encoded_again():
    method = Doubling()
    images = Encoded(method, PIXELS, CPU, 5, cache=Cache(left=2 * 4))
    expected = torch.cat(list(images))
    assert torch.cat(list(images)).tolist() == expected.tolist()
    assert method.given == [5, 3]


@pytest.mark.parametrize("room", [0, 2 * 3])
def test_encodings_have_the_precision_asked_for_whether_they_are_kept_or_not(room):
    """In half precision each takes two bytes."""
    images = Encoded(Doubling(), PIXELS, CPU, 5, cache=Cache(left=room), precision=torch.float16)
    (expected,) = Encoded(Doubling(), PIXELS, CPU, 5)
    for _ in range(2):
        (batch,) = images
        assert torch.equal(batch, expected.half())
        (drawn,) = images.through(doubled)
        assert torch.equal(drawn, expected.half())
    assert len(images.cache.kept) == room // 2


def doubled(images):
    return 2 * images[:, 0, 0]


def test_repeated_images_are_encoded_anew_by_a_random_function_alone():
    method, drawn = Doubling(), []

    def numbered(images):
        drawn.extend(range(len(drawn), len(drawn) + len(images)))
        return torch.cat([images[:, 0, 0], torch.tensor(drawn[-len(images) :])[:, None]], 1)

    images = Encoded(method, PIXELS, CPU, 2).subset(np.array([4, 1]))
    assert torch.cat(list(images.repeated(3)))[:, 0].tolist() == pytest.approx([1.2, -1.2] * 3)
    assert sum(method.given) == 2
    random = images.through(numbered).repeated(3)
    assert torch.cat(list(random)).T.tolist() == [pytest.approx([0.6, -0.6] * 3), list(range(6))]
    assert torch.cat(list(random.subset(np.array([5, 0]))))[:, 1].tolist() == [5, 0]  # kept, not drawn again


@pytest.mark.parametrize("room", [0, 5 * 4, 10**6])
def test_what_is_drawn_for_an_image_is_always_the_same(room):
    """Also where it is not kept, and whatever it is asked for together with."""
    images = Encoded(Doubling(), PIXELS, CPU, 2, cache=Cache(left=room))
    torch.manual_seed(0)
    random, state = images.through(noisy).repeated(2), torch.get_rng_state()
    first = torch.cat(list(random))
    assert torch.equal(torch.cat(list(random)), first)
    assert torch.equal(torch.cat(list(random.subset(np.array([7, 2, 0])))), first[[7, 2, 0]])
    assert torch.equal(torch.cat(list(images.through(noisy))), first[:5])
    assert not torch.equal(first[5:], first[:5])
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert not torch.equal(torch.cat(list(plain().through(noisy))), first[:5])


def noisy(images):
    return images[:, 0, 0] + torch.rand(len(images), 3)
