from pathlib import Path

import pytest

from normscope.server.batching import MOST_IMAGES, Batcher
from normscope.server.limits import BusyError, Limits


class Fake:
    """A model whose score is the number in the name of a file; the number 13 cannot be scored."""

    calibration = None

    def __init__(self) -> None:
        self.calls = []

    def scored(self, paths, *, with_heat, max_pixels):
        self.calls.append(([path.name for path in paths], with_heat))
        if Path("13") in paths:
            raise ValueError("thirteen")
        return (int(path.name) for path in paths)


@pytest.fixture
def fake():
    return Fake()


@pytest.fixture
def batcher(fake):
    return Batcher(lambda: {"a": fake, "b": fake}, Limits())


def submit(batcher, *numbers, model="a", with_heat=False):
    return batcher.submit(model, [Path(str(number)) for number in numbers], with_heat)


def finish(batcher):
    batcher.thread.start()
    batcher.close()


def test_what_waits_together_is_scored_together_and_paired_by_position(batcher, fake):
    futures = [submit(batcher, 1, 2), submit(batcher, 3), submit(batcher, 4, 4, 5)]
    finish(batcher)
    assert [future.result(0) for future in futures] == [[1, 2], [3], [4, 4, 5]]
    assert fake.calls == [(["1", "2", "3", "4", "4", "5"], False)]


def test_models_and_heat_maps_are_kept_apart_and_nobody_waits_forever(batcher, fake):
    futures = [
        submit(batcher, 1),
        submit(batcher, 2, model="b"),
        submit(batcher, 3, with_heat=True),
        submit(batcher, 4),
    ]
    finish(batcher)
    assert [future.result(0) for future in futures] == [[1], [2], [3], [4]]
    assert fake.calls == [(["1", "4"], False), (["2"], False), (["3"], True)]


def test_a_batch_is_bounded(batcher, fake):
    futures = [submit(batcher, *range(20, 120)) for _ in range(4)]
    finish(batcher)
    assert all(len(future.result(0)) == 100 for future in futures)
    assert [len(paths) for paths, _ in fake.calls] == [200, 200]
    assert 200 <= MOST_IMAGES < 300


def test_one_request_that_fails_fails_alone(batcher):
    fine, wrong, also_fine = submit(batcher, 1), submit(batcher, 13), submit(batcher, 2)
    finish(batcher)
    assert (fine.result(0), also_fine.result(0)) == ([1], [2])
    with pytest.raises(ValueError, match="thirteen"):
        wrong.result(0)


def test_what_nobody_waits_for_is_not_scored(batcher, fake):
    left, kept = submit(batcher, 1), submit(batcher, 2)
    left.cancel()
    finish(batcher)
    assert kept.result(0) == [2]
    assert fake.calls == [(["2"], False)]


def test_too_many_are_refused(fake):
    batcher = Batcher(lambda: {"a": fake}, Limits(queued=2))
    futures = [submit(batcher, 1), submit(batcher, 2)]
    with pytest.raises(BusyError, match="2 requests are waiting"):
        submit(batcher, 3)
    finish(batcher)
    assert [future.result(0) for future in futures] == [[1], [2]]


def test_models_that_cannot_be_loaded_are_no_models():
    batcher = Batcher(lambda: 1 / 0, Limits())
    finish(batcher)
    assert not batcher.ready
    assert isinstance(batcher.failure, ZeroDivisionError)
