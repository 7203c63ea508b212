import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from normscope import datasets
from normscope.datasets import imagenet, superclasses
from normscope.errors import DatasetError, SettingError

NAMES = {
    **{f"n0100000{i}": f"{kind} dog, hound dog" for i, kind in enumerate(["grey", "red", "small"])},
    **{f"n0200000{i}": f"{kind} boat, sailing boat" for i, kind in enumerate(["fast", "slow"])},
    "n03000000": "teapot",
}


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three training and two validation images of each class; image j has j + 1 bytes."""
    folder = tmp_path / "imagenet"
    for wnid in NAMES:
        for part, count in (("train", 3), ("val", 2)):
            (folder / part / wnid).mkdir(parents=True)
            for j in range(count):
                (folder / part / wnid / f"{wnid}_{j}.JPEG").write_bytes(b"x" * (j + 1))
    lines = [f"{wnid} {names}\n" for wnid, names in NAMES.items()]
    (folder / "LOC_synset_mapping.txt").write_text("".join(lines))
    return folder


def test_every_class_is_in_one_superclass_and_none_is_empty():
    grouping = superclasses.group(NAMES)
    assert sorted(wnid for wnids in grouping.values() for wnid in wnids) == sorted(NAMES)
    assert all(grouping.values())
    assert 2 <= len(grouping) <= 10  # topics that no class went to are dropped
    assert superclasses.group(NAMES) == grouping


def test_classes_with_the_same_words_go_together():
    names = {str(i): text for i, text in enumerate(["hound dog terrier"] * 5 + ["boat ship yacht"] * 5)}
    grouping = superclasses.group(names)
    assert list(grouping.values()) in ([list("01234"), list("56789")], [list("56789"), list("01234")])
    assert set(grouping) == {"dog hound terrier", "boat ship yacht"}


def test_superclasses_of_the_same_words_get_different_names():
    named = superclasses._named([["a"], ["b"]], {"a": "same word", "b": "word same"})
    assert named == {"same word": ["a"], "same word 1": ["b"]}


def test_a_task_trains_on_one_superclass_and_tests_on_all(folder):
    loaded = imagenet.load(folder.parent)
    for normal, name in enumerate(loaded.class_names):
        task, members = loaded.task(normal), loaded.grouping[name]
        assert len(task.train_images) == 3 * len(members)
        assert {path.parent.name for path in task.train_images} == set(members)
        assert all(path.is_relative_to(folder / "train") for path in task.train_images)
        assert len(task.test_images) == 2 * len(NAMES)
        assert all(path.is_relative_to(folder / "val") for path in task.test_images)
        expected = [path.parent.name not in members for path in task.test_images]
        assert np.array_equal(task.test_labels.look(), expected)
        assert task.test_masks is None
    with pytest.raises(SettingError, match="no class -1 in imagenet"):
        loaded.task(-1)


def test_the_grouping_is_kept_and_read_again(folder, monkeypatch):
    first = imagenet.load(folder.parent)
    assert json.loads((folder / "superclasses.json").read_text()) == first.grouping
    kept = {"animals": sorted(NAMES)[:3], "things": sorted(NAMES)[3:]}
    (folder / "superclasses.json").write_text(json.dumps(kept))
    monkeypatch.setattr(superclasses, "group", None)
    second = imagenet.load(folder.parent)
    assert second.class_names == ("animals", "things")
    assert second.sha256 != first.sha256
    assert datasets.classes("imagenet", folder.parent)["animals"][0] == "n01000000 grey dog, hound dog"


def test_a_folder_that_cannot_be_written_to_is_read_all_the_same(folder, monkeypatch):
    def refuse(path, data):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(superclasses, "write_atomically", refuse)
    assert imagenet.load(folder.parent).sha256 == imagenet.load(folder.parent).sha256
    assert not (folder / "superclasses.json").exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nothing",
        "[]",
        "3",
        '{"a": 3}',
        json.dumps({"a": sorted(NAMES)[1:]}),
        json.dumps({"a": sorted(NAMES), "b": sorted(NAMES)[:1]}),
        json.dumps({"a": sorted(NAMES), "b": []}),
        json.dumps({"a": [*sorted(NAMES), "n09999999"]}),
        "\ud800".encode("utf-8", "surrogatepass").decode("latin1"),
    ],
)
def test_another_or_damaged_grouping_is_refused(folder, content):
    (folder / "superclasses.json").write_text(content)
    with pytest.raises(DatasetError, match=r"superclasses.json .*; delete it to have it made anew") as error:
        imagenet.load(folder.parent)
    assert "\n" not in str(error.value)


def test_a_single_superclass_is_refused(folder):
    (folder / "superclasses.json").write_text(json.dumps({"all": sorted(NAMES)}))
    with pytest.raises(DatasetError, match="one superclass only"):
        imagenet.load(folder.parent)


def test_names_without_words_are_refused(folder):
    with pytest.raises(DatasetError, match="cannot be grouped"):
        superclasses.group({"n1": "a", "n2": "b"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; expected lines such as"),
        ("tench\n", "line 1 is 'tench'; expected a new class"),
        ("n01440764\n", "line 1 is 'n01440764'"),
        ("n01000000 dog\nn01000000 dog\n", "line 2 is 'n01000000 dog'"),
        ("n01000000 dog\n\nn02000000 boat", "line 2 is ''"),
    ],
)
def test_a_damaged_mapping_is_refused(folder, content, message):
    (folder / "LOC_synset_mapping.txt").write_text(content)
    with pytest.raises(DatasetError, match=rf"LOC_synset_mapping.txt {message}"):
        imagenet.load(folder.parent)


def test_a_missing_mapping_or_folder_is_named(folder):
    shutil.rmtree(folder / "val" / "n02000001")
    with pytest.raises(DatasetError, match=r"val.n02000001 is missing; expected one folder of images for each line"):
        imagenet.load(folder.parent)
    (folder / "LOC_synset_mapping.txt").unlink()
    with pytest.raises(DatasetError, match=r"LOC_synset_mapping.txt .*is missing"):
        imagenet.load(folder.parent)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize("file", ["LOC_synset_mapping.txt", "superclasses.json", "train/n01000000/n01000000_1.JPEG"])
def test_what_is_no_regular_file_is_refused(folder, file):
    (folder / file).unlink(missing_ok=True)
    os.mkfifo(folder / file)
    with pytest.raises(DatasetError, match=rf"{file} is not a regular file; expected"):
        imagenet.load(folder.parent)


def test_a_class_without_images_or_with_an_empty_one_is_named(folder):
    image = folder / "train" / "n01000000" / "n01000000_0.JPEG"
    image.write_bytes(b"")
    with pytest.raises(DatasetError, match=r"n01000000_0.JPEG is empty"):
        imagenet.load(folder.parent)
    shutil.rmtree(image.parent)
    image.parent.mkdir()
    with pytest.raises(DatasetError, match="n01000000 has no image"):
        imagenet.load(folder.parent)


def test_the_fingerprint_depends_on_names_and_sizes(folder):
    before = imagenet.load(folder.parent).sha256
    assert imagenet.load(folder.parent).sha256 == before
    image = folder / "val" / "n01000000" / "n01000000_0.JPEG"
    image.write_bytes(b"xx")
    changed = imagenet.load(folder.parent).sha256
    image.rename(image.with_name("other.JPEG"))
    assert len({before, changed, imagenet.load(folder.parent).sha256}) == 3
