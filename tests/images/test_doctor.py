import json
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from normscope.images.doctor import examine, to_json
from normscope.images.outliers import THRESHOLD, outlier_scores


def picture(path, seed=0, size=(12, 8)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    with path.open("wb") as file:
        Image.fromarray(pixels).save(file, "PNG")
    return path


def test_report_counts_everything(tmp_path):
    first = picture(tmp_path / "a.png", seed=1)
    (tmp_path / "copy.png").write_bytes(first.read_bytes())
    Image.open(first).save(tmp_path / "same pixels.bmp")
    picture(tmp_path / "b.png", seed=2, size=(5, 9))
    (tmp_path / "cut.png").write_bytes(first.read_bytes()[:100])
    (tmp_path / "text.jpg").write_bytes(b"not an image")
    (tmp_path / "notes.txt").touch()
    Image.new("L", (4, 4), 90).save(tmp_path / "flat.png")
    Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64)).save(tmp_path / "twelve bits.png")
    Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64) * 16).save(tmp_path / "sixteen bits.png")
    frames = [Image.new("RGB", (6, 6), name) for name in ("red", "blue")]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])

    (tmp_path / "empty.png").touch()

    report = examine(tmp_path)
    here = str(tmp_path)
    assert report.readable == 8
    assert [one.path.name for one in report.unreadable] == ["cut.png", "empty.png", "text.jpg"]
    assert [one.path.name for one in report.skipped] == ["notes.txt"]
    assert report.sizes == {"12 x 8": 3, "64 x 64": 2, "5 x 9": 1, "6 x 6": 1, "4 x 4": 1}
    assert report.formats == {"PNG": 6, "BMP": 1, "GIF": 1}
    assert report.modes == {"RGB": 4, "I;16": 2, "P": 1, "L": 1}
    assert (report.grey, report.colour) == (3, 5)
    assert report.flat == (f"{here}/film.gif", f"{here}/flat.png")
    assert report.dim == (f"{here}/twelve bits.png",)
    assert report.animated == (f"{here}/film.gif",)
    assert report.duplicates == ((f"{here}/a.png", f"{here}/copy.png", f"{here}/same pixels.bmp"),)
    assert report.outliers == ()
    told = json.loads(json.dumps(to_json(report)))
    assert told["readable"] == 8
    assert told["skipped"] == [{"path": f"{here}/notes.txt", "reason": "not an image by its name (.txt)"}]
    assert told["unreadable"][1] == {"path": f"{here}/empty.png", "reason": "empty file (0 bytes)"}


def test_report_of_an_empty_folder(tmp_path):
    report = examine(tmp_path)
    assert (report.readable, report.grey, report.colour, report.sizes, report.outliers) == (0, 0, 0, {}, ())


def test_report_tells_its_progress(tmp_path):
    for index in range(3):
        picture(tmp_path / f"{index}.png")
    seen = []
    examine(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def zeros():
    digits = load_digits()
    return digits.images[digits.target == 0], digits.images[digits.target == 4]


def test_planted_outlier_is_found(tmp_path):
    normal, other = zeros()
    for index, image in enumerate([*normal[:60], other[0]]):
        Image.fromarray((image * 15.9).astype(np.uint8)).save(tmp_path / f"{index:02}.png")
    assert [Path(one.path).name for one in examine(tmp_path).outliers] == ["60.png"]


def test_outliers_are_worst_first(tmp_path):
    normal, other = zeros()
    noise = np.random.default_rng(0).integers(0, 17, (8, 8))
    for index, image in enumerate([*normal[:60], other[0], 16 - normal[61], noise]):
        Image.fromarray((image * 15.9).astype(np.uint8)).save(tmp_path / f"{index:02}.png")
    outliers = examine(tmp_path).outliers
    assert {Path(one.path).name for one in outliers} == {"60.png", "61.png", "62.png"}
    assert [one.score for one in outliers] == sorted((one.score for one in outliers), reverse=True)


def test_clean_digits_have_hardly_an_outlier():
    digits = load_digits()
    for digit in range(10):
        thumbnails = np.repeat((digits.images[digits.target == digit] * 15.9).astype(np.uint8)[..., None], 3, axis=3)
        assert (outlier_scores(thumbnails) > THRESHOLD).mean() < 0.02


def test_few_or_equal_images_have_no_outliers():
    odd = np.zeros((9, 16, 16, 3), np.uint8)
    odd[0] = 255
    assert (outlier_scores(odd) == 0).all()
    assert (outlier_scores(np.zeros((50, 16, 16, 3), np.uint8)) == 0).all()


def test_scores_are_of_the_nearest_other_images():
    thumbnails = np.zeros((12, 1, 1, 3), np.uint8)
    thumbnails[:, 0, 0, :] = np.array([0, 3, 9, 20, 34, 50, 69, 90, 112, 140, 170, 240])[:, None]
    values = thumbnails[:, 0, 0, 0].astype(float)
    distances = np.sort(np.abs(values[:, None] - values), axis=1)[:, 1:6].mean(axis=1)  # without itself
    spread = 1.4826 * np.median(np.abs(distances - np.median(distances)))
    np.testing.assert_allclose(outlier_scores(thumbnails), (distances - np.median(distances)) / spread)


def test_outlier_is_found_when_references_are_a_sample():
    thumbnails = np.random.default_rng(0).integers(90, 110, (3000, 4, 4, 3), dtype=np.uint8)
    thumbnails[1234] += 60
    assert np.argmax(outlier_scores(thumbnails)) == 1234
