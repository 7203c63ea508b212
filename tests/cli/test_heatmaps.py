import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope.images.reader import decode
from normscope.report.overlays import Overlays, file_name


def test_a_picture_for_each_image_under_a_name_of_its_own(run, explaining, parts, tmp_path):
    code, out, err = run("score", explaining, parts, "--heatmaps", tmp_path / "maps", "--json")
    rows = json.loads(out)
    assert code == 3  # one cannot be read
    assert err.splitlines()[-1] == f"wrote 12 heat maps to {tmp_path / 'maps'}"
    names = {path.name for path in (tmp_path / "maps").iterdir()}
    assert len(rows) == 13
    assert names == {file_name(Path(row["path"])) for row in rows if not row["error"]}
    assert rows == json.loads(run("score", explaining, parts, "--json").out)


def test_good_images_stay_cool_and_the_patch_is_hot_where_it_is(run, explaining, parts, tmp_path):
    run("score", explaining, parts / "good", parts / "bad", "--heatmaps", tmp_path)

    def colour(name: str) -> np.ndarray:
        """How far from grey each place of the heat map is; a JPEG rounds a little."""
        pixels = decode(tmp_path / file_name(parts / name)).pixels.astype(int)
        map = pixels[13 : 13 + 144, 2 * 13 + 192 :][:, :192]  # 48 x 64, enlarged three times
        return map.max(2) - map.min(2)

    assert (colour("good/1.png") > 40).mean() < 0.02
    hot = colour("bad/1.png") > 80
    rows, columns = np.nonzero(hot)
    assert hot.sum() > 500
    assert 24 < rows.mean() < 60  # where the patch is
    assert 24 < columns.mean() < 60


def test_names_cannot_collide(tmp_path):
    hostile = [
        "a/x.png",
        "b/x.png",
        "a/x.jpg",
        "a/X.png",
        "a/x.png ",
        "a/..png",
        "a/<script>.png",
        "a/é.png",
        "a/e.png",
    ]
    hostile += [
        "a/" + "x" * 250 + ".png",
        "a/" + "y" * 250 + ".png",
        os.fsdecode(b"a/\xff.png"),
        "a/-rf.png",
        "a/\n.png",
    ]
    names = [file_name(Path(name)) for name in hostile]
    assert len({name.lower() for name in names}) == len(hostile)
    for name in names:
        (tmp_path / name).touch()
        assert not name.startswith((".", "-"))
        assert not set(name) & set('<>:"/\\|?*\n ')


def test_the_same_image_has_the_same_name_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert file_name(Path("x.png")) == file_name(tmp_path / "x.png")


def test_hostile_names_and_turned_photographs(run, explaining, tmp_path):
    folder = tmp_path / "some"
    folder.mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8))
    image.save(folder / "turned.jpg", exif=exif, quality=95)
    image.save(folder / "=cmd|' <b>.png")
    assert run("score", explaining, folder, "--heatmaps", tmp_path / "maps").code == 0
    turned = decode(tmp_path / "maps" / file_name(folder / "turned.jpg")).pixels
    upright = decode(folder / "turned.jpg").pixels
    assert upright.shape == (60, 40, 3)
    shown = turned[13 : 13 + 240, 13 : 13 + 160][::4, ::4]
    assert np.abs(shown.astype(int) - upright).mean() < 12


def test_an_image_that_is_gone_meanwhile_is_said(run, explaining, parts, tmp_path, monkeypatch):
    from normscope.errors import ImageError

    def gone(path, longest):
        raise ImageError("No such file or directory")

    monkeypatch.setattr("normscope.report.overlays.read", gone)
    code, _, err = run("score", explaining, parts / "bad" / "0.png", "--heatmaps", tmp_path)
    assert code == 0
    assert f"note: no heat map of {parts / 'bad' / '0.png'} (No such file or directory)" in err
    assert not list(tmp_path.iterdir())


def test_where_there_can_be_none_it_is_said_before_scoring(refused, model, explaining, good, parts, tmp_path):
    line = refused("score", model, good, "--heatmaps", tmp_path / "maps")
    assert "the method knn has no heat maps on a scale that normal images fix; fit with one of" in line
    assert "pretrained" in line
    assert not (tmp_path / "maps").exists()
    assert "would be scored next time" in refused("score", explaining, parts, "--heatmaps", parts / "maps")
    (tmp_path / "file").touch()
    assert "file" in refused("score", explaining, parts, "--heatmaps", tmp_path / "file")


def test_interrupted_the_rows_are_kept(run, explaining, parts, tmp_path, monkeypatch):
    def interrupted(self, path, scored):
        raise KeyboardInterrupt

    monkeypatch.setattr(Overlays, "add", interrupted)
    code, _, err = run("score", explaining, parts, "--heatmaps", tmp_path / "maps", "--csv", tmp_path / "rows.csv")
    assert code == 130
    assert "wrote 1 row to" in err


@pytest.mark.parametrize("text", ["score", "--heatmaps"])
def test_help_names_it(run, text):
    assert text in run("score", "--help").out
