import contextlib
import errno
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope.errors import ImageFolderError
from normscope.images.folder import SUFFIXES, check_folder, check_path, scan
from normscope.images.outcome import FileOutcome, Kind


def picture(path, seed=0, size=(12, 8)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    with path.open("wb") as file:
        Image.fromarray(pixels).save(file, "PNG")
    return path


def images(found):
    return [one.path for one in found if one.kind is Kind.IMAGE]


def left_out(found):
    return {one.path.name: (one.kind, one.reason) for one in found if one.kind is not Kind.IMAGE}


def test_images_are_found_at_every_depth_in_order(tmp_path):
    paths = [picture(tmp_path / name) for name in ("b.png", "a/z.png", "a/b/c.png", "a.png", "c/d/e/f/g.png")]
    assert [*scan(tmp_path)] == [FileOutcome(path) for path in sorted(paths)]


def test_suffixes_in_any_case(tmp_path):
    for suffix in SUFFIXES:
        for name in (f"a{suffix}", f"b{suffix.upper()}", f"c{suffix.title()}"):
            picture(tmp_path / name)
    assert len(images(scan(tmp_path))) == 3 * len(SUFFIXES)


def test_what_is_no_image_has_its_kind_and_a_reason(tmp_path):
    for name in (".DS_Store", "._x.png", ".hidden/inside.png", "notes.txt", "no_suffix", "x.png.zip", "odd.\x1b[1m"):
        picture(tmp_path / name)
    (tmp_path / "empty.png").touch()
    (tmp_path / "empty.txt").touch()
    os.mkfifo(tmp_path / "fifo.png")
    os.mkfifo(tmp_path / "fifo")
    found = scan(tmp_path)
    assert images(found) == []
    assert left_out(found) == {
        ".DS_Store": (Kind.IGNORED, "hidden"),
        "._x.png": (Kind.IGNORED, "hidden"),
        ".hidden": (Kind.IGNORED, "hidden"),
        "notes.txt": (Kind.IGNORED, "not an image by its name (.txt)"),
        "empty.txt": (Kind.IGNORED, "not an image by its name (.txt)"),
        "no_suffix": (Kind.IGNORED, "not an image by its name (no suffix)"),
        "fifo": (Kind.IGNORED, "not an image by its name (no suffix)"),
        "x.png.zip": (Kind.IGNORED, "not an image by its name (.zip)"),
        "odd.\x1b[1m": (Kind.IGNORED, "not an image by its name (.\\x1b[1m)"),
        "empty.png": (Kind.UNREADABLE, "empty file (0 bytes)"),
        "fifo.png": (Kind.UNREADABLE, "not a regular file"),
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
    assert images(found) == [folder / "elsewhere" / "b.png", folder / "link.png", image]
    seen = (Kind.IGNORED, "link to a folder that was already looked through")
    assert left_out(found) == {
        "broken.png": (Kind.UNREADABLE, "broken link"),
        "self.png": (Kind.UNREADABLE, "link to itself"),
        "a_link": seen,
        "elsewhere again": seen,
        "up": seen,
    }


def test_every_entry_is_accounted_for_in_order(tmp_path):
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
    assert [one.path for one in found] == sorted(expected)


def test_deeper_than_python_recurses(tmp_path):
    folder = tmp_path
    for _ in range(1200):
        folder /= "d"
        folder.mkdir()
    image = picture(folder / "a.png")
    assert images(scan(tmp_path)) == [image]
    image.unlink()
    while folder != tmp_path:  # pytest removes what tests leave behind, and recurses
        folder.rmdir()
        folder = folder.parent


def test_odd_names(tmp_path):
    names = ["with space.png", "new\nline.png", "\x1b[31mred.png", "ü.png", "x" * 251 + ".png", "-rf.png", "'\".png"]
    paths = [picture(tmp_path / name) for name in names]
    with contextlib.suppress(OSError):  # not every file system takes such a name
        paths.append(picture(tmp_path / os.fsdecode(b"caf\xe9.png")))
    assert images(scan(tmp_path)) == sorted(paths)


def test_a_file_is_taken_as_it_is(tmp_path):
    for name in ("notes.txt", ".hidden", "empty.png"):
        (tmp_path / name).touch()
        assert [*scan(tmp_path / name)] == [FileOutcome(tmp_path / name)]


IMPOSSIBLE = [
    ("missing", "does not exist"),
    ("x" * 300, "cannot be read (File name too long)"),
    ("x/" * 3000, "cannot be read (File name too long)"),
    ("a\0b", "cannot be read (not a possible path (embedded null byte))"),
    ("\ud800", "cannot be read (not a possible path ('utf-8' codec"),
    ("file.png/below", "cannot be read (Not a directory)"),
]


@pytest.mark.parametrize(("name", "reason"), IMPOSSIBLE, ids=range(len(IMPOSSIBLE)))
def test_an_impossible_path_is_an_outcome_or_says_what_to_do(tmp_path, name, reason):
    picture(tmp_path / "file.png")
    (found,) = scan(tmp_path / name)
    assert (found.path, found.kind) == (tmp_path / name, Kind.UNREADABLE)
    assert found.reason.startswith(reason)
    for check in (check_path, check_folder):
        with pytest.raises(ImageFolderError, match="; check the "):
            check(tmp_path / name)


def test_a_file_is_no_folder(tmp_path):
    check_path(picture(tmp_path / "a.png"))
    with pytest.raises(ImageFolderError, match=r"a\.png is a file, not a folder; give"):
        check_folder(tmp_path / "a.png")


def refuse(path, *arguments, **options):
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


def test_folder_that_may_not_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "scandir", refuse)  # root may read a folder of mode 0
    assert [*scan(tmp_path)] == [FileOutcome(tmp_path, Kind.UNREADABLE, "cannot be read (Permission denied)")]
    with pytest.raises(ImageFolderError, match=r"cannot be read \(Permission denied\); check"):
        check_folder(tmp_path)


def test_folder_below_that_may_not_be_read(tmp_path, monkeypatch):
    image = picture(tmp_path / "a.png")
    picture(tmp_path / "locked" / "b.png")
    iterdir = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: refuse(path) if path.name == "locked" else iterdir(path))
    found = scan(tmp_path)
    assert images(found) == [image]
    assert left_out(found) == {"locked": (Kind.UNREADABLE, "folder cannot be read: Permission denied")}


def test_entry_that_may_not_be_looked_at(tmp_path, monkeypatch):
    picture(tmp_path / "a.png")
    stat = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **options: refuse(path) if path.name == "a.png" else stat(path))
    assert left_out(scan(tmp_path)) == {"a.png": (Kind.UNREADABLE, "cannot be looked at: Permission denied")}
