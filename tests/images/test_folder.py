import contextlib
import errno
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope.errors import ImageFolderError
from normscope.images.folder import SUFFIXES, printable, scan
from normscope.images.reader import decode


def picture(path, seed=0, size=(12, 8)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    with path.open("wb") as file:
        Image.fromarray(pixels).save(file, "PNG")
    return path


def reasons(found):
    return {one.path.name: one.reason for one in found.skipped}


def test_images_are_found_at_every_depth_in_order(tmp_path):
    paths = [picture(tmp_path / name) for name in ("b.png", "a/z.png", "a/b/c.png", "a.png", "c/d/e/f/g.png")]
    assert scan(tmp_path).images == tuple(sorted(paths))
    assert scan(tmp_path) == scan(tmp_path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_suffixes_in_any_case(tmp_path, suffix):
    for name in (f"a{suffix}", f"b{suffix.upper()}", f"c{suffix.title()}"):
        picture(tmp_path / name)
    assert len(scan(tmp_path).images) == 3


def test_what_is_skipped_has_a_reason(tmp_path):
    for name in (".DS_Store", "._x.png", ".hidden/inside.png", "notes.txt", "no_suffix", "x.png.zip", "odd.\x1b[1m"):
        picture(tmp_path / name)
    (tmp_path / "empty.png").touch()
    os.mkfifo(tmp_path / "fifo.png")
    found = scan(tmp_path)
    assert found.images == ()
    assert reasons(found) == {
        ".DS_Store": "hidden",
        "._x.png": "hidden",
        ".hidden": "hidden",
        "notes.txt": "not an image by its name (.txt)",
        "no_suffix": "not an image by its name (no suffix)",
        "x.png.zip": "not an image by its name (.zip)",
        "odd.\x1b[1m": "not an image by its name (.\\x1b[1m)",
        "empty.png": "empty file (0 bytes)",
        "fifo.png": "not a regular file",
    }


def test_links_are_followed_and_loops_end(tmp_path):
    folder = tmp_path / "in"
    image = picture(folder / "real" / "a.png")
    outside = picture(tmp_path / "out" / "b.png")
    (folder / "link.png").symlink_to(outside)
    (folder / "broken.png").symlink_to("missing.png")
    (folder / "self.png").symlink_to("self.png")
    (folder / "a_link").symlink_to("real")  # sorts first, and yet the real name is the one kept
    (folder / "elsewhere").symlink_to(outside.parent)
    (folder / "real" / "up").symlink_to(folder)
    (tmp_path / "out" / "elsewhere again").symlink_to(outside.parent)
    found = scan(folder)
    assert found.images == (folder / "elsewhere" / "b.png", folder / "link.png", image)
    assert reasons(found) == {
        "broken.png": "broken link",
        "self.png": "link to itself",
        "a_link": "link to a folder that was already looked through",
        "elsewhere again": "link to a folder that was already looked through",
        "up": "link to a folder that was already looked through",
    }


def test_every_entry_is_accounted_for(tmp_path):
    rng = np.random.default_rng(3)
    folders = [tmp_path]
    for index in range(60):
        parent = folders[rng.integers(len(folders))]
        kind = rng.integers(5)
        if kind == 0:
            folders.append(parent / f"folder{index}")
            folders[-1].mkdir()
        elif kind == 1:
            (parent / f"{index}.txt").touch()
        elif kind == 2:
            (parent / f".{index}.png").touch()
        elif kind == 3:
            (parent / f"link{index}").symlink_to(folders[rng.integers(len(folders))])
        else:
            picture(parent / f"{index}.png")
    found = scan(tmp_path)
    entries = [Path(top) / name for top, folders, files in os.walk(tmp_path) for name in folders + files]
    expected = [entry for entry in entries if entry.is_symlink() or not entry.is_dir()]
    assert Counter([*found.images, *(one.path for one in found.skipped)]) == Counter(expected)


def test_odd_names(tmp_path):
    names = ["with space.png", "new\nline.png", "\x1b[31mred.png", "ü.png", "x" * 251 + ".png", "-rf.png", "'\".png"]
    paths = [picture(tmp_path / name) for name in names]
    with contextlib.suppress(OSError):  # not every file system takes such a name
        paths.append(picture(tmp_path / os.fsdecode(b"caf\xe9.png")))
    found = scan(tmp_path)
    assert set(found.images) == set(paths)
    for path in found.images:
        decode(path)
        assert printable(path).encode("utf-8").decode("utf-8").isprintable()


def test_printable_escapes_only_what_must_be():
    assert printable(Path("a b/ü.png")) == "a b/ü.png"
    assert printable("a\nb\x1b") == "a\\nb\\x1b"
    assert printable(os.fsdecode(b"\xff")) == "\\udcff"


def test_no_folder_says_what_to_do(tmp_path):
    with pytest.raises(ImageFolderError, match="missing does not exist; check"):
        scan(tmp_path / "missing")
    with pytest.raises(ImageFolderError, match=r"a\.png is a file, not a folder; give"):
        scan(picture(tmp_path / "a.png"))
    with pytest.raises(ImageFolderError, match="cannot be read"):
        scan(tmp_path / ("x" * 300))
    with pytest.raises(ImageFolderError, match="not a possible folder name"):
        scan(Path("a\0b"))


def refuse(path, *arguments, **options):
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


def test_folder_that_may_not_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "scandir", refuse)  # root may read a folder of mode 0
    with pytest.raises(ImageFolderError, match=r"cannot be read \(Permission denied\); check"):
        scan(tmp_path)


def test_folder_below_that_may_not_be_read(tmp_path, monkeypatch):
    image = picture(tmp_path / "a.png")
    picture(tmp_path / "locked" / "b.png")
    iterdir = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: refuse(path) if path.name == "locked" else iterdir(path))
    found = scan(tmp_path)
    assert found.images == (image,)
    assert reasons(found) == {"locked": "folder cannot be read: Permission denied"}


def test_entry_that_may_not_be_looked_at(tmp_path, monkeypatch):
    picture(tmp_path / "a.png")
    stat = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path: refuse(path) if path.name == "a.png" else stat(path))
    assert reasons(scan(tmp_path)) == {"a.png": "cannot be looked at: Permission denied"}
