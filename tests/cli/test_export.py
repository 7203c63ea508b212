import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope import Detector

EXAMPLE = Path(__file__).parents[2] / "examples" / "score_with_onnxruntime.py"
STRIPES = np.tile(np.arange(0, 256, 8, dtype=np.uint8), (40, 40, 1))


def striped(n, seed):
    noise = np.random.default_rng(seed).integers(-20, 20, (n, 40, 32))
    return np.clip(STRIPES[:n] + noise, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pca") / "tiles.safetensors"
    Detector("pca", false_alarm_rate=0.1).fit(striped(40, 0)).save(path)
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Images of other sizes and kinds, and one that is none."""
    folder = tmp_path_factory.mktemp("photos")
    for number, pixels in enumerate(striped(4, 1)):
        Image.fromarray(pixels).save(folder / f"{number}.png")
    colour = Image.fromarray(striped(1, 2)[0]).convert("RGB").resize((100, 80))
    colour.putpixel((0, 0), (255, 0, 0))
    colour.save(folder / "4.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    colour.save(folder / "5.jpg", exif=turned)
    colour.putalpha(100)
    colour.save(folder / "6.png")
    (folder / "broken.png").write_bytes(b"no image")
    return folder


def test_export_score_and_the_example_agree(run, model, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("export", model, "--to", "onnx", "--images", photos, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result["file"] == "tiles.onnx"
    assert result["images"] == 12 + 7
    assert result["relative"] < 1e-3
    assert [path.name for path in tmp_path.iterdir()] == ["tiles.onnx"]

    wanted = json.loads(run("score", model, photos, "--json").out)
    code, out, _ = run("score", "tiles.onnx", photos, "--json", "--report", "report.html")
    rows = json.loads(out)
    assert code == 3
    assert [(row["path"], row["anomalous"], row["error"]) for row in rows] == [
        (row["path"], row["anomalous"], row["error"]) for row in wanted
    ]
    assert rows[-1]["error"]
    assert [row["score"] for row in rows[:-1]] == pytest.approx([row["score"] for row in wanted[:-1]], rel=1e-3)
    assert "tiles.onnx" in Path("report.html").read_text()

    files = [row["path"] for row in rows[:-1]]
    shown = subprocess.run([sys.executable, EXAMPLE, "tiles.onnx", *files], capture_output=True, text=True, check=True)
    table = [line.split("\t") for line in shown.stdout.splitlines()]
    assert [line[0] for line in table] == files
    assert [float(line[1]) for line in table] == pytest.approx([row["score"] for row in rows[:-1]], rel=1e-3)
    assert [float(line[2]) for line in table] == pytest.approx([row["p_value"] for row in rows[:-1]], rel=1e-3)
    assert [line[3] == "anomalous" for line in table] == [row["anomalous"] for row in rows[:-1]]

    card = json.loads(run("info", "tiles.onnx", "--json").out)
    assert card["export"]["parity"]["images"] == 19
    assert card["method"] == "pca"


def test_the_example_uses_nothing_of_ours():
    assert len(EXAMPLE.read_text().splitlines()) < 45
    assert "import normscope" not in EXAMPLE.read_text()


def test_wrong_use_is_one_line(refused, model, images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "choose from onnx, openvino" in refused("export", model, "--to", "tflite")
    assert "does not end in .xml" in refused("export", model, "--to", "openvino", "-o", tmp_path / "model.onnx")
    assert "does not exist" in refused("export", model, "-o", tmp_path / "nowhere" / "model.onnx")
    (tmp_path / "empty").mkdir()
    assert "no readable image" in refused("export", model, "-o", tmp_path / "m.onnx", "--images", tmp_path / "empty")
    assert "nowhere" in refused("export", model, "-o", tmp_path / "m.onnx", "--images", tmp_path / "nowhere")
    assert "give a model that `normscope fit` wrote" in refused(
        "export", images(tmp_path / "images", 1) / "000.png", "-o", "m.onnx"
    )
    (tmp_path / "tiles.onnx").write_bytes(b"mine")
    assert "tiles.onnx exists" in refused("export", model)
    assert (tmp_path / "tiles.onnx").read_bytes() == b"mine"


def test_files_that_are_no_model_are_one_line(refused, photos, tmp_path):
    for name in ("model.onnx", "model.xml"):
        assert "No such file" in refused("score", tmp_path / name, photos)
        (tmp_path / name).write_bytes(b"something else")
        (tmp_path / "model.bin").write_bytes(b"")
        assert "no intact file of `normscope export`" in refused("score", tmp_path / name, photos)
        assert "no intact file of `normscope export`" in refused("info", tmp_path / name)


def test_a_search_says_why_it_cannot_be_exported(refused, tmp_path):
    settings = {"width": 16, "latent": 4, "starts": 1, "rounds": 1}
    Detector("adgan", settings=settings, epochs=0, false_alarm_rate=0.2).fit(striped(10, 0), allow_collapse=True).save(
        tmp_path / "model"
    )
    assert "adgan cannot be exported: it searches" in refused("export", tmp_path / "model", "-o", tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
