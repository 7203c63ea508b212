from contextlib import closing

import numpy as np
import pytest

from normscope.errors import ImageFolderError
from normscope.images import thumbnails as module
from normscope.images.thumbnails import Thumbnails


@pytest.mark.parametrize("in_memory", [1, 2**30])
def test_pictures_come_out_as_they_went_in(monkeypatch, in_memory):
    monkeypatch.setattr(module, "IN_MEMORY", in_memory)
    given = np.random.default_rng(0).integers(0, 256, (20, 4, 5, 3), dtype=np.uint8)
    with closing(Thumbnails((4, 5))) as thumbnails:
        for one in given:
            thumbnails.append(one)
        assert len(thumbnails) == 20
        np.testing.assert_array_equal(thumbnails[15:30], given[15:30])
        chosen = np.array([3, 0, 19])
        np.testing.assert_array_equal(thumbnails[chosen], given[chosen])


def test_a_full_disk_says_what_to_do(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with closing(Thumbnails((4, 5))) as thumbnails:
        monkeypatch.setattr(thumbnails._file, "write", full)
        with pytest.raises(ImageFolderError, match="No space left on device"):
            thumbnails.append(np.zeros((4, 5, 3), np.uint8))
