import errno
import gc
import os
import threading
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from normscope.errors import ImageFolderError
from normscope.images import decoding
from normscope.images import store as module
from normscope.images.outcome import FileOutcome, Kind
from normscope.images.reader import Picture, decode, resize
from normscope.images.store import from_arrays, from_paths, in_batches

RNG = np.random.default_rng(0)
ARRAYS = RNG.integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)


@pytest.fixture
def paths(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    made = [folder / f"{index:02}.png" for index in range(len(ARRAYS))]
    for path, pixels in zip(made, ARRAYS, strict=True):
        Image.fromarray(pixels).save(path)
    return made


def test_holds_each_image_channels_first(paths):
    store, outcomes = from_paths(paths, (16, 16))
    assert outcomes == [FileOutcome(path, shape=(16, 16)) for path in paths]
    assert len(store) == 20
    assert store.paths == tuple(paths)
    assert store[:].dtype == np.uint8
    np.testing.assert_array_equal(store[:], ARRAYS.transpose(0, 3, 1, 2))


def test_images_are_resized_like_the_reader_does(paths):
    store, _ = from_paths(paths, (7, 7))
    assert store.size == (7, 7)
    np.testing.assert_array_equal(store[3][0].transpose(1, 2, 0), resize(decode(paths[3]).pixels, (7, 7)))


def test_sizes_are_height_and_width(paths, tmp_path):
    store, _ = from_paths(paths, (9, 20))
    assert store.size == (9, 20)
    assert store[:].shape == (20, 3, 9, 20)
    mapped, _ = from_paths(paths, (9, 20), memory_limit=0, scratch=tmp_path)
    assert store.sha256 == mapped.sha256 == from_arrays(ARRAYS, (9, 20)).sha256
    np.testing.assert_array_equal(mapped[5][0].transpose(1, 2, 0), resize(ARRAYS[5], (9, 20)))
    with pytest.raises(ImageFolderError, match="20 images of 9 x 20 need"):
        from_paths(paths, (9, 20), memory_limit=0, scratch=tmp_path / "missing")


def test_shapes_are_those_before_resizing(tmp_path):
    sizes = [(30, 20), (7, 40), (12, 12)]
    files = [tmp_path / f"{width}.png" for width, _ in sizes]
    for path, size in zip(files, sizes, strict=True):
        Image.new("L", size).save(path)
    files.insert(1, tmp_path / "missing.png")
    shapes = tuple(size[::-1] for size in sizes)
    arrays = [np.zeros(shape, np.uint8) for shape in shapes]
    for store in (from_paths(files, (8, 8))[0], from_arrays(arrays, (8, 8))):
        assert store.shapes == shapes
        assert store.subset([2, 0]).shapes == (shapes[2], shapes[0])


def test_indexing(paths):
    store, _ = from_paths(paths, (16, 16))
    every = store[:]
    np.testing.assert_array_equal(store[4], every[4:5])
    np.testing.assert_array_equal(store[2:9:3], every[2:9:3])
    np.testing.assert_array_equal(store[[5, 1, 5, -1]], every[[5, 1, 5, -1]])
    np.testing.assert_array_equal(store[np.arange(20) % 2 == 0], every[::2])
    assert store[[]].shape == (0, 3, 16, 16)
    with pytest.raises(IndexError):
        store[20]


def test_what_is_given_out_is_a_copy(paths):
    store, _ = from_paths(paths, (16, 16))
    store[:][:] = 0
    store[3:5][:] = 0
    assert store[:].any(axis=(1, 2, 3)).all()


def test_there_is_an_outcome_for_each_path_in_order(paths):
    paths[0].write_bytes(b"")
    paths[7].write_bytes(paths[7].read_bytes()[:200])
    paths[19].unlink()
    store, outcomes = from_paths(paths, (16, 16))
    broken = [0, 7, 19]
    assert [one.path for one in outcomes] == paths
    assert [index for index, one in enumerate(outcomes) if one.kind is Kind.UNREADABLE] == broken
    assert [index for index, one in enumerate(outcomes) if one.reason or not one.shape] == broken
    assert store.paths == tuple(one.path for one in outcomes if one.kind is Kind.IMAGE)
    np.testing.assert_array_equal(store[:], np.delete(ARRAYS, broken, axis=0).transpose(0, 3, 1, 2))


def test_a_path_given_twice_has_two_outcomes(paths, monkeypatch):
    original, times = module._decode, []

    def once(path, size, most):
        times.append(path)
        return original(path, size, most) if times.count(path) == 1 else "gone"

    monkeypatch.setattr(module, "_decode", once)
    monkeypatch.setattr(module, "THREADS", 1)
    store, outcomes = from_paths([paths[3], paths[3], paths[5]], (16, 16))
    assert [one.kind for one in outcomes] == [Kind.IMAGE, Kind.UNREADABLE, Kind.IMAGE]
    np.testing.assert_array_equal(store[:], ARRAYS[[3, 5]].transpose(0, 3, 1, 2))


def test_shapes_are_those_of_the_files(tmp_path):
    Image.new("L", (30, 20)).save(tmp_path / "a.png")
    assert from_paths([tmp_path / "a.png"], (8, 8))[1][0].shape == (20, 30)


def test_nothing_readable_is_an_empty_store(tmp_path):
    store, outcomes = from_paths([tmp_path / "missing.png"], (8, 8))
    assert (len(store), len(outcomes), store.paths, store.grey) == (0, 1, (), True)
    assert len(store.sha256) == 64


def test_an_impossible_path_is_an_outcome(paths):
    impossible = [paths[0].parent / name for name in ("x" * 300, "x/" * 3000, "a\0b", "\ud800")]
    store, outcomes = from_paths([*impossible, paths[1]], (16, 16))
    reasons = ["File name too long"] * 2 + ["not a possible path"] * 2
    assert [one.reason.partition(" (")[0] for one in outcomes] == [*reasons, ""]
    np.testing.assert_array_equal(store[:], ARRAYS[1:2].transpose(0, 3, 1, 2))


def test_mapped_equals_in_memory(paths, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    paths[2].write_bytes(b"broken")
    inside, _ = from_paths(paths, (16, 16))
    mapped, _ = from_paths(paths, (16, 16), memory_limit=0, scratch=scratch)
    assert isinstance(mapped._pixels.base, np.memmap)
    np.testing.assert_array_equal(mapped[:], inside[:])
    assert type(mapped[[1, 2]]) is np.ndarray
    assert mapped.sha256 == inside.sha256
    assert list(scratch.iterdir()) == []


def test_mapped_file_is_released_with_the_store(paths, tmp_path):
    def maps():
        with open("/proc/self/maps") as file:  # noqa: PTH123
            return sum(str(tmp_path) in line for line in file)

    if not os.path.exists("/proc/self/maps"):  # noqa: PTH110
        pytest.skip("needs /proc")
    store, _ = from_paths(paths, (16, 16), memory_limit=0, scratch=tmp_path)
    part = store.subset([0])
    del store
    gc.collect()
    assert maps() > 0
    assert part[0].any()
    del part
    gc.collect()
    assert maps() == 0


def test_no_room_for_the_mapped_file(paths, tmp_path, monkeypatch):
    with pytest.raises(ImageFolderError, match="make room there, give another folder"):
        from_paths(paths, (16, 16), memory_limit=0, scratch=tmp_path / "missing")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(ImageFolderError, match=r"need 0 MB .*No space left"):
        from_paths(paths, (16, 16), memory_limit=0, scratch=tmp_path)


def test_order_does_not_depend_on_the_threads(paths, monkeypatch):
    original, second = module._decode, threading.Event()

    def slow_at_first(path, size, most):
        if path.name == "00.png":
            second.wait(60)  # until the other thread has done the next one
        result = original(path, size, most)
        if path.name == "01.png":
            second.set()
        return result

    monkeypatch.setattr(module, "_decode", slow_at_first)
    store, _ = from_paths(paths, (16, 16))
    np.testing.assert_array_equal(store[:], ARRAYS.transpose(0, 3, 1, 2))


def test_progress_counts_every_file(paths):
    paths[4].write_bytes(b"broken")
    seen = []
    from_paths(paths, (16, 16), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(index, 20) for index in range(1, 21)]


def test_an_interrupted_read_leaves_no_thread_behind(paths):
    before = threading.active_count()

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        from_paths(paths, (16, 16), progress=stop)
    gc.collect()
    assert threading.active_count() == before


def test_decoding_memory_does_not_grow_with_the_number_of_files(tmp_path):
    pixels = np.broadcast_to(RNG.integers(0, 256, (400, 1, 1), dtype=np.uint8), (400, 500, 3))
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size < decoding.SMALL_BYTES  # so it is decoded in this process

    def peak(count):
        tracemalloc.start()
        from_paths([tmp_path / "a.png"] * count, (8, 8))
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(2)
    assert peak(120) - 120 * 3 * 8 * 8 < peak(20) + 3 * pixels.nbytes


def test_files_are_not_decoded_far_ahead(paths, monkeypatch):
    started = []
    monkeypatch.setattr(
        module,
        "_decode",
        lambda path, size, most: started.append(path) or Picture(np.zeros((*size, 3), np.uint8), (9, 9), "", "", False),
    )
    ahead = []
    from_paths(paths, (4, 4), progress=lambda done, total: ahead.append(len(started) - done))
    assert max(ahead) <= 8


def test_fingerprint_is_of_pixels_shape_and_order(paths):
    store, _ = from_paths(paths, (16, 16))
    assert store.sha256 == from_arrays(ARRAYS, (16, 16)).sha256
    assert store.sha256 != from_arrays(ARRAYS[::-1], (16, 16)).sha256
    assert store.sha256 != from_arrays(ARRAYS[:-1], (16, 16)).sha256
    changed = ARRAYS.copy()
    changed[7, 3, 2, 1] ^= 1
    assert store.sha256 != from_arrays(changed, (16, 16)).sha256
    flat = np.zeros((4, 4, 4), np.uint8)
    assert from_arrays(flat, (4, 4)).sha256 != from_arrays(flat[:1], (8, 8)).sha256  # as many bytes, all equal
    assert from_arrays(flat, (2, 8)).sha256 != from_arrays(flat, (8, 2)).sha256


def test_subset_shares_pixels_and_equals_a_store_of_its_own(paths):
    store, _ = from_paths(paths, (16, 16))
    part = store.subset([7, 3, 11, 3])
    assert np.shares_memory(part._pixels, store._pixels)
    assert part.paths == (paths[7], paths[3], paths[11], paths[3])
    np.testing.assert_array_equal(part[:], store[[7, 3, 11, 3]])
    assert part.sha256 == from_arrays(ARRAYS[[7, 3, 11, 3]], (16, 16)).sha256
    nested = part.subset(slice(1, None)).subset(np.array([True, False, True]))
    np.testing.assert_array_equal(nested[:], store[[3, 3]])
    assert nested.paths == (paths[3], paths[3])
    assert len(store.subset([])) == 0
    assert from_arrays(ARRAYS, (16, 16)).subset([1]).paths is None


def test_grey_is_told_from_colour():
    grey = from_arrays(ARRAYS[..., 0], (16, 16))
    assert grey.grey
    mixed = from_arrays([*ARRAYS[:3, :, :, :1], ARRAYS[3]], (16, 16))
    assert not mixed.grey
    assert mixed.subset([0, 1, 2]).grey


def test_arrays_of_every_allowed_shape():
    grey = ARRAYS[..., :1]
    expected = np.repeat(grey, 3, axis=3).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(from_arrays(grey, (16, 16))[:], expected)
    np.testing.assert_array_equal(from_arrays(grey[..., 0], (16, 16))[:], expected)
    np.testing.assert_array_equal(from_arrays(list(grey), (16, 16))[:], expected)
    sizes = [np.full((height, 5 * height), 9, np.uint8) for height in (3, 4, 50)]
    assert (from_arrays(sizes, (6, 6))[:] == 9).all()
    assert from_arrays(ARRAYS[:0], (16, 16))[:].shape == (0, 3, 16, 16)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (ARRAYS.astype(np.float32), r"image 0 is an array of float32 \[16, 16, 3\]; give uint8"),
        (ARRAYS.transpose(0, 3, 1, 2), r"uint8 \[3, 16, 16\]; give \[h, w\]"),
        (ARRAYS[0, :, :, 0], r"image 0 is an array of uint8 \[16\]; give"),
        (np.zeros((2, 8, 8, 4), np.uint8), "give"),
        (np.zeros((2, 0, 8), np.uint8), "give"),
        ([ARRAYS[0], [[1, 2], [3, 4]]], "image 1 is a list; give uint8"),
        (["a.png"], "image 0 is a str; give uint8"),
    ],
)
def test_arrays_of_another_kind_are_refused(images, message):
    with pytest.raises(ImageFolderError, match=message):
        from_arrays(images, (16, 16))


def test_batches_are_those_of_all_files_at_once(paths):
    paths[3].write_bytes(b"no image")
    whole, outcomes = from_paths(paths, (8, 8))
    batches = [*in_batches(paths, (8, 8), 6)]
    assert [len(found) for _, found in batches] == [6, 6, 6, 2]
    assert [one for _, found in batches for one in found] == outcomes
    np.testing.assert_array_equal(np.concatenate([store[:] for store, _ in batches]), whole[:])


def test_the_next_batch_is_decoded_while_the_caller_works_on_one(paths, monkeypatch):
    begun, sixth = [], threading.Event()

    def decode_and_count(path, *rest, **options):
        begun.append(path)
        if len(begun) == 6:
            sixth.set()
        return decoding.decode_file(path, *rest, **options)

    monkeypatch.setattr(module, "decode_file", decode_and_count)
    batches = in_batches(paths, (8, 8), 3)
    next(batches)
    assert sixth.wait(10)
    assert len(begun) <= 7  # no more than a batch ahead
    batches.close()
