"""folder and mvtec, which share one layout."""

import os
import shutil
from pathlib import Path

import pytest

from normscope.datasets import classes, folder, mvtec
from normscope.errors import DatasetError, SettingError


def write(path: Path, content: str = "image") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def write_category(root: Path, suffix: str = "_mask.png") -> Path:
    for name in ("train/good/001.png", "train/good/000.png", "test/good/000.png"):
        write(root / name)
    for name in ("crack/000.jpg", "crack/001.jpg", "scratch/000.png"):
        write(root / "test" / name)
        write(root / "ground_truth" / f"{name[:-4]}{suffix}")
    return root


@pytest.fixture
def category(tmp_path) -> Path:
    return write_category(tmp_path / "tile")


@pytest.fixture
def root(tmp_path) -> Path:
    """mvtec with two categories."""
    for name in ("wood", "bottle"):
        write_category(tmp_path / "mvtec" / name)
    write(tmp_path / "mvtec" / "readme.txt")
    return tmp_path


def relative(paths: list[Path | None], to: Path) -> list[str | None]:
    return [path and path.relative_to(to).as_posix() for path in paths]


@pytest.mark.parametrize("suffix", ["_mask.png", ".png", "_mask.BMP", ".tiff"])
def test_files_in_order_with_labels_and_masks(tmp_path, suffix):
    root = write_category(tmp_path / "tile", suffix)
    task = folder.load(root).task(0)
    assert relative(task.train_images, root) == ["train/good/000.png", "train/good/001.png"]
    tests = ["test/crack/000.jpg", "test/crack/001.jpg", "test/good/000.png", "test/scratch/000.png"]
    assert relative(task.test_images, root) == tests
    assert task.test_labels.look().tolist() == [True, True, False, True]
    masks = [f"ground_truth/crack/000{suffix}", f"ground_truth/crack/001{suffix}", None]
    assert relative(task.test_masks, root) == [*masks, f"ground_truth/scratch/000{suffix}"]


def test_the_class_has_the_name_of_the_folder(category, monkeypatch):
    assert folder.load(category).class_names == ("tile",)
    monkeypatch.chdir(category)
    assert folder.load(Path()).class_names == ("tile",)
    with pytest.raises(SettingError, match="no class 1 in folder"):
        folder.load(category).task(1)


def test_without_ground_truth_there_are_no_masks(category):
    shutil.rmtree(category / "ground_truth")
    assert folder.load(category).task(0).test_masks is None


def test_a_defect_without_a_folder_of_masks_has_none_but_a_lacking_mask_is_an_error(category):
    shutil.rmtree(category / "ground_truth" / "scratch")
    assert folder.load(category).task(0).test_masks[-1] is None
    (category / "ground_truth" / "crack" / "001_mask.png").unlink()
    with pytest.raises(DatasetError, match=r"crack.001.jpg has no mask; expected .*ground_truth.crack.001_mask.png"):
        folder.load(category)


@pytest.mark.parametrize("part", ["train", "train/good", "test", "test/good"])
def test_a_missing_part_is_named(category, part):
    shutil.rmtree(category / part)
    with pytest.raises(DatasetError, match=rf"{part}.* is missing; expected train/good, test/good, .* in .*tile"):
        folder.load(category)


def test_a_test_part_without_defects_is_refused(category):
    for defect in ("crack", "scratch"):
        shutil.rmtree(category / "test" / defect)
    with pytest.raises(DatasetError, match="test has no defect"):
        folder.load(category)


@pytest.mark.parametrize("part", ["train/good", "test/good", "test/crack"])
def test_a_part_without_images_is_refused(category, part):
    shutil.rmtree(category / part)
    write(category / part / "notes.txt")
    write(category / part / ".hidden.png")
    with pytest.raises(DatasetError, match=rf"{part} has no image"):
        folder.load(category)


def test_files_that_are_no_images_are_left_out(category):
    before = folder.load(category)
    write(category / "train/good/Thumbs.db")
    write(category / "test/.DS_Store")
    write(category / "license.txt")
    after = folder.load(category)
    assert after.task(0).train_images == before.task(0).train_images
    assert after.sha256 == before.sha256


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


def make_dangling(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize("part", ["train/good/000.png", "test/crack/000.jpg", "ground_truth/scratch/000_mask.png"])
@pytest.mark.parametrize("make", [make_empty, make_dangling, os.mkfifo, os.mkdir])
def test_an_image_that_cannot_be_one_is_named(category, part, make):
    (category / part).unlink()
    make(category / part)
    with pytest.raises(DatasetError, match=rf"{part} is (empty|not a regular file).*; expected an image"):
        folder.load(category)


def test_the_fingerprint_depends_on_names_and_contents_but_not_on_the_place(category, tmp_path):
    before = folder.load(category).sha256
    copy = tmp_path / "elsewhere"
    shutil.copytree(category, copy)
    assert folder.load(copy).sha256 == before
    for part in ("train/good/000.png", "test/crack/001.jpg", "ground_truth/crack/000_mask.png"):
        kept = (copy / part).read_text()
        write(copy / part, "other")
        assert folder.load(copy).sha256 != before
        write(copy / part, kept)
    (copy / "train/good/000.png").rename(copy / "train/good/002.png")
    assert folder.load(copy).sha256 != before


def test_an_image_that_vanishes_before_it_is_hashed_is_named(category):
    loaded = folder.load(category)
    (category / "train/good/000.png").unlink()
    with pytest.raises(DatasetError, match=r"000.png cannot be read \(No such file"):
        _ = loaded.sha256


def test_each_category_of_mvtec_is_a_task_of_its_own(root):
    loaded = mvtec.load(root)
    assert (loaded.name, loaded.class_names) == ("mvtec", ("bottle", "wood"))
    assert classes("mvtec", root) == {"bottle": [], "wood": []}
    task = loaded.task(1)
    every = [*task.train_images, *task.test_images, *filter(None, task.test_masks)]
    assert all(path.is_relative_to(root / "mvtec" / "wood") for path in every)
    assert (len(task.train_images), len(task.test_images)) == (2, 4)
    with pytest.raises(SettingError, match="no class 2 in mvtec; choose from 0 to 1"):
        loaded.task(2)


def test_a_category_laid_out_otherwise_is_named(root):
    shutil.rmtree(root / "mvtec" / "bottle" / "train")
    with pytest.raises(DatasetError, match=r"mvtec.bottle.train.good is missing; expected"):
        mvtec.load(root)


def test_mvtec_without_categories_or_without_its_folder(root):
    for name in ("wood", "bottle"):
        shutil.rmtree(root / "mvtec" / name)
    with pytest.raises(DatasetError, match="mvtec has no category; expected folders such as bottle, published at http"):
        mvtec.load(root)
    shutil.rmtree(root / "mvtec")
    with pytest.raises(DatasetError, match="mvtec is missing; expected a folder"):
        mvtec.load(root)
    write(root / "mvtec")
    with pytest.raises(DatasetError, match="mvtec cannot be read"):
        mvtec.load(root)
