import json


def test_json_says_all(run, images, tmp_path):
    folder = images(tmp_path / "some", 12)
    (folder / "copy.png").write_bytes((folder / "000.png").read_bytes())
    (folder / "broken.png").write_bytes(b"no image")
    (folder / "notes.txt").touch()
    code, out, err = run("doctor", folder, "--json")
    report = json.loads(out)
    assert (code, err) == (3, "")
    assert report["readable"] == 13
    assert [one["path"] for one in report["unreadable"]] == [str(folder / "broken.png")]
    assert [one["path"] for one in report["skipped"]] == [str(folder / "notes.txt")]
    assert report["duplicates"] == [[str(folder / "000.png"), str(folder / "copy.png")]]
    assert report["sizes"] == {"28 x 28": 13}
    assert report["modes"] == {"L": 13}
    assert report["outliers"] == []


def test_exit_code_3_is_for_what_cannot_be_read_alone(run, images, tmp_path):
    folder = images(tmp_path / "some", 2)
    (folder / "notes.txt").touch()
    (folder / ".hidden.png").touch()
    (folder / "again").symlink_to(folder)
    assert run("doctor", folder).code == 0
    (folder / "empty.png").touch()
    code, out, _ = run("doctor", folder)
    assert code == 3
    assert f"cannot be read: 1\n  {folder}/empty.png: empty file (0 bytes)\n" in out


def test_people_read_the_same(run, images, tmp_path):
    folder = images(tmp_path / "some", 2)
    images(folder, 3, shape=(30, 20, 3), prefix="colour")
    for number in range(12):
        (folder / f"broken{number:02}.png").write_bytes(b"no image")
    code, out, err = run("doctor", folder)
    lines = out.splitlines()
    assert (code, err) == (3, "")
    assert lines[0] == "5 readable images, 2 grey and 3 in colour"
    assert lines[1] == "sizes: 20 x 30 (3), 28 x 28 (2)"
    assert "cannot be read: 12" in lines
    assert f"  {folder}/broken09.png: not a readable PNG, JPEG, BMP, TIFF, WEBP, GIF or PPM image" in lines
    assert "  … and 2 more; --json lists all" in lines


def test_sizes_that_all_differ_are_not_all_listed(run, images, tmp_path):
    for side in range(30, 50):
        images(tmp_path / "some", 1, shape=(side, side), prefix=str(side))
    assert "sizes: 30 x 30 (1), 31 x 31 (1), 32 x 32 (1) and 17 others" in run("doctor", tmp_path / "some").out


def test_an_empty_folder_is_said_to_be_one(run, tmp_path):
    assert run("doctor", tmp_path) == (0, "0 readable images, 0 grey and 0 in colour\n", "")


def test_no_folder(refused, tmp_path):
    assert "does not exist; check the spelling" in refused("doctor", tmp_path / "nothing")
    (tmp_path / "file").touch()
    assert "is a file, not a folder" in refused("doctor", tmp_path / "file")
