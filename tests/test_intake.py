from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope.errors import ImageFolderError
from normscope.images import store as stores
from normscope.images.outcome import Kind
from normscope.images.size import Auto
from normscope.intake import check_worth_learning, common_size, expand, gather

RNG = np.random.default_rng(0)


def noise(n: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, 256, (n, *shape), dtype=np.uint8)


def write(folder: Path, names: list[str], side: int = 32, width: int | None = None) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = [folder / name for name in names]
    for path in paths:
        Image.fromarray(noise(side, width or side)).save(path)
    return paths


@pytest.mark.parametrize(("side", "size"), [(8, 28), (28, 28), (50, 50), (64, 64), (300, 64)])
def test_auto_is_the_typical_side_within_bounds(side, size):
    assert gather(noise(3, side, side + 5), Auto(64))[0].size == (size, size)


def test_auto_keeps_the_shape_where_it_may(tmp_path):
    arrays = noise(9, 36, 52, 3)
    kept, _ = gather(arrays, Auto(64, rectangles=True))
    assert (kept[:] == arrays.transpose(0, 3, 1, 2)).all()
    squashed, _ = gather(arrays, Auto(64))
    assert squashed.size == (36, 36)
    assert squashed.shapes == kept.shapes == ((36, 52),) * 9
    write(tmp_path, ["1.png", "2.png", "3.png"], 200, 100)
    assert gather(tmp_path, Auto(64, rectangles=True))[0].size == (128, 64)
    assert gather(tmp_path, Auto(64))[0].size == (64, 64)


def test_a_given_size_is_taken(tmp_path):
    assert gather(noise(3, 8, 8), (100, 100))[0].size == (100, 100)
    write(tmp_path, ["1.png"])
    for images in (noise(3, 8, 8), tmp_path):
        assert gather(images, (30, 100))[0].size == (30, 100)


def of_sides(folder: Path, sides: list[int]) -> Path:
    for index, side in enumerate(sides):
        write(folder, [f"m{index:02}.png"], side)
    return folder


def test_auto_is_chosen_from_what_can_be_read_alone(tmp_path):
    """Files with a sound header and nothing behind it, of every name and number."""
    folder = of_sides(tmp_path, [30, 30, 40, 40, 50])
    (header,) = write(tmp_path / "elsewhere", ["large.png"], 200)
    cut = header.read_bytes()[:100]
    whole, _ = gather(sorted(folder.glob("*.png")), Auto())
    assert whole.size == (40, 40)
    names = ["a", "b", "c", "d", "m00a", "m01a", "m02a", "m03a", "x", "y", "z"]
    for count in range(1, len(names) + 1):
        (folder / f"{names[count - 1]}.png").write_bytes(cut)
        found, left_out = gather(sorted(folder.glob("*.png")), Auto())
        assert found.sha256 == whole.sha256
        assert len(left_out) == count


@pytest.mark.parametrize(("sides", "reads"), [([40] * 20, 1), ([90, 300] * 10, 1), ([30] * 9 + [40] * 11, 2)])
def test_files_are_read_again_only_if_the_size_was_not_what_a_few_of_them_have(tmp_path, monkeypatch, sides, reads):
    read = []
    from_paths = stores.from_paths
    monkeypatch.setattr(
        stores,
        "from_paths",
        lambda paths, size, **options: read.append(len(paths)) or from_paths(paths, size, **options),
    )
    found, _ = gather(of_sides(tmp_path / "a", sides), Auto(64))
    assert found.size == (min(sorted(sides)[10], 64),) * 2
    assert read == [3] + [20] * reads


def test_folder_list_and_file_are_the_same_images(tmp_path):
    paths = write(tmp_path / "a", ["1.png", "2.png", "3.png"])
    arrays = [np.array(Image.open(path)) for path in paths]
    whole, skipped = gather(tmp_path / "a", Auto())
    assert skipped == []
    for other in (str(tmp_path / "a"), paths, [str(path) for path in paths], arrays, np.stack(arrays), tuple(arrays)):
        assert gather(other, Auto())[0].sha256 == whole.sha256
    assert (gather(paths[1], Auto())[0][0] == whole[1]).all()


def test_several_folders_are_one_after_the_other(tmp_path):
    second, first = write(tmp_path / "b", ["1.png"]), write(tmp_path / "a", ["1.png"])
    found, _ = gather([tmp_path / "b", tmp_path / "a"], Auto())
    assert found.paths == (*second, *first)


def test_what_is_left_out_has_its_kind_in_order(tmp_path):
    write(tmp_path, ["good.png"])
    (tmp_path / "bad.png").write_bytes(b"no image")
    (tmp_path / "empty.png").touch()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / ".hidden.png").write_text("hello")
    (tmp_path / "again").symlink_to(tmp_path)
    found, left_out = gather(tmp_path, Auto())
    assert len(found) == 1
    assert [(one.path.name, one.kind) for one in left_out] == [
        (".hidden.png", Kind.IGNORED),
        ("again", Kind.IGNORED),
        ("bad.png", Kind.UNREADABLE),
        ("empty.png", Kind.UNREADABLE),
        ("notes.txt", Kind.IGNORED),
    ]
    assert all(one.reason for one in left_out)


@pytest.mark.parametrize("name", ["nothing", "x" * 300, "a\0b"], ids=["missing", "too long", "null"])
def test_a_path_at_which_nothing_can_be_found(tmp_path, name):
    (good,) = write(tmp_path, ["good.png"])
    for ask in (lambda: expand([tmp_path / name]), lambda: gather([good, tmp_path / name], (28, 28))):
        with pytest.raises(ImageFolderError, match="; check the "):
            ask()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no image was given"),
        (np.empty((0, 8, 8), np.uint8), "no image was given"),
        (noise(3, 8, 8).astype(float), "image 0 is an array of float64"),
        (noise(3, 8, 8).astype(np.uint16), "image 0 is an array of uint16"),
        ([noise(8, 8), noise(8, 8).astype(bool)], "image 1 is an array of bool"),
        (noise(8, 8), r"shape \[8, 8\]; give \[n, h, w\]"),
        (noise(8), r"shape \[8\]"),
        (np.uint8(3), "give a folder"),
        (np.array(3, np.uint8), "give a folder"),
        (noise(2, 8, 8, 4), r"image 0 is an array of uint8 \[8, 8, 4\]"),
        (noise(2, 8, 8, 3, 1), "give"),
        (noise(2, 0, 8), "image 0"),
        ([noise(8, 8), "a.png"], "image 1 is a str; give paths alone or uint8 arrays alone"),
        (["a.png", noise(8, 8)], "image 0 is a str"),
        ([[1, 2], [3, 4]], "image 0 is a list"),
        (5, "images are a int"),
        (None, "images are a NoneType"),
    ],
)
def test_what_is_no_images_is_refused(given, message):
    with pytest.raises(ImageFolderError, match=message):
        gather(given, Auto())


def test_nothing_readable_names_the_folder_or_the_reason(tmp_path):
    with pytest.raises(ImageFolderError, match="has no readable image; `normscope doctor FOLDER`"):
        gather(tmp_path, (28, 28))
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(ImageFolderError, match="has no readable image"):
        gather(tmp_path, (28, 28))
    with pytest.raises(ImageFolderError, match=r"a.png cannot be read \(not a readable PNG"):
        gather(tmp_path / "a.png", (28, 28))
    with pytest.raises(ImageFolderError, match=r"what was given \(2 paths\)"):
        gather([tmp_path / "a.png", tmp_path / "a.png"], (28, 28))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (noise(1, 28, 28), "1 readable image is too few"),
        (noise(7, 28, 28), "7 readable images are too few"),
        (np.repeat(noise(1, 28, 28), 20, 0), "all 20 images are the same"),
        (np.full((9, 28, 28), 7, np.uint8), "the same"),
        (np.broadcast_to(np.arange(9, dtype=np.uint8)[:, None, None], (9, 28, 28)), "of a single colour"),
    ],
)
def test_images_without_anything_to_learn(images, message):
    with pytest.raises(ImageFolderError, match=message):
        check_worth_learning(gather(images, (28, 28))[0])


def test_one_image_that_differs_is_enough():
    images = np.repeat(noise(1, 28, 28), 8, 0)
    images[-1, 0, 0] ^= 255
    check_worth_learning(gather(images, (28, 28))[0])


def test_common_size():
    assert common_size(noise(2, 5, 7)) == (5, 7)
    assert common_size(noise(2, 5, 7, 3)) == (5, 7)
    assert common_size([noise(5, 7), noise(5, 7, 3)]) == (5, 7)
    assert common_size([noise(5, 7), noise(6, 7)]) is None
    assert common_size(["a.png"]) is None
    assert common_size("a.png") is None
