"""An exported file in place of a model, and files that are none."""

import json
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from normscope.errors import ExportError, ModelFileError, SettingError
from normscope.export import onnx_file
from normscope.export.exported import open_model, read_card
from normscope.export.exported_file import sha256
from normscope.export.exporting import export
from normscope.model import load


def sealed(proto):
    body = proto.SerializeToString()
    return body + onnx_file.ending(sha256(body))


def test_rows_are_those_of_the_model(explaining, parts, file):
    paths = sorted(parts.rglob("*.png"))
    for own, wanted in zip(
        open_model(file).scored(paths, with_heat=True), load(explaining).scored(paths, with_heat=True), strict=True
    ):
        for name in ("path", "anomalous", "error"):
            assert own.row[name] == wanted.row[name]
        if wanted.row["error"]:
            assert own == wanted
            continue
        for name in ("score", "p_value", "p_estimate"):
            assert own.row[name] == pytest.approx(wanted.row[name], rel=1e-3)
        assert own.heat == pytest.approx(wanted.heat, abs=1e-3)


def test_another_false_alarm_rate(explaining, file):
    assert open_model(file).at(0.3).calibration.threshold == load(explaining).at(0.3).calibration.threshold


def test_the_card_says_how_far_the_graph_is_from_the_model(explaining, file):
    card, checksum = read_card(file)
    own = card.pop("export")
    assert card == load(explaining).card
    assert own["parity"]["relative"] <= own["tolerance"]
    assert own["parity"]["images"] == 12
    assert "BILINEAR" in own["decoding"]
    assert len(checksum) == 64


def test_the_file_says_nothing_of_the_machine(explaining, exported):
    for path in (exported["onnx"], exported["openvino"]):
        assert b"site-packages" not in path.read_bytes()
        assert b".py" not in path.read_bytes()


def test_batches_of_any_size(file):
    model = open_model(file)
    pixels = np.random.default_rng(0).integers(0, 256, (9, *model.size, 3), dtype=np.uint8)
    together = model.method.run(pixels)
    for one in range(9):
        alone = model.method.run(pixels[one : one + 1])
        assert alone["score"] == pytest.approx(together["score"][one : one + 1], rel=1e-5)
        assert alone["heat_map"].shape == (1, *together["heat_map"].shape[1:])
    assert together["anomalous"].dtype == bool


@pytest.mark.parametrize("change", ["empty", "cut", "flipped", "other"])
def test_a_file_that_is_not_as_it_was_written_is_refused(change, file, tmp_path):
    data = bytearray(file.read_bytes())
    copy = tmp_path / file.name
    if file.suffix == ".xml":
        copy.with_suffix(".bin").write_bytes(file.with_suffix(".bin").read_bytes())
    data[len(data) // 2] ^= 1
    copy.write_bytes({"empty": b"", "cut": data[:-1000], "flipped": data, "other": b"PK\x03\x04" * 50}[change])
    with pytest.raises(ModelFileError, match="no intact file of `normscope export`"):
        open_model(copy)


def test_weights_that_were_changed_are_refused(exported, tmp_path):
    graph = exported["openvino"]
    weights = bytearray(graph.with_suffix(".bin").read_bytes())
    weights[1000] ^= 1
    (tmp_path / "model.xml").write_bytes(graph.read_bytes())
    (tmp_path / "model.bin").write_bytes(weights)
    with pytest.raises(ModelFileError, match="checksum"):
        open_model(tmp_path / "model.xml")
    (tmp_path / "model.bin").unlink()
    with pytest.raises(FileNotFoundError):
        open_model(tmp_path / "model.xml")


def hostile(kind):
    """A graph that computes nothing of ours, under a checksum that fits."""
    images = helper.make_tensor_value_info("images", TensorProto.UINT8, ["n", 4, 4, 3])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n"])
    empty = helper.make_graph([], "branch", [], [score])
    nodes = {
        "file": helper.make_node("Identity", ["weights"], ["score"]),
        "loop": helper.make_node("If", ["images"], ["score"], then_branch=empty, else_branch=empty),
        "operation": helper.make_node("Own", ["images"], ["score"], domain="com.example"),
    }
    graph = helper.make_graph([nodes[kind]], "graph", [images], [score])
    if kind == "file":
        outside = graph.initializer.add(name="weights", data_type=TensorProto.FLOAT, dims=[4])
        outside.data_location = TensorProto.EXTERNAL
        outside.external_data.add(key="location", value="../../etc/passwd")
    return helper.make_model(graph)


@pytest.mark.parametrize(
    ("kind", "reason"), [("file", "refers to other files"), ("loop", "loops"), ("operation", "not part of ONNX")]
)
def test_a_graph_that_does_more_than_compute_is_refused(kind, reason, tmp_path):
    (tmp_path / "model.onnx").write_bytes(sealed(hostile(kind)))
    with pytest.raises(ModelFileError, match=reason):
        open_model(tmp_path / "model.onnx")


@pytest.mark.parametrize("missing", ["normscope", "card", "calibration"])
def test_a_file_without_its_texts_is_refused(missing, exported, tmp_path):
    proto = onnx.load(exported["onnx"])
    texts = {one.key: one.value for one in proto.metadata_props if one.key not in (missing, "sha256")}
    helper.set_model_props(proto, texts)
    (tmp_path / "model.onnx").write_bytes(sealed(proto))
    with pytest.raises(ModelFileError, match="no intact file"):
        open_model(tmp_path / "model.onnx")


def test_a_card_of_another_size_is_refused(exported, tmp_path):
    proto = onnx.load(exported["onnx"])
    texts = {one.key: one.value for one in proto.metadata_props if one.key != "sha256"}
    card = json.loads(texts["card"])
    card["preprocessing"]["size"] = [40, 40]
    helper.set_model_props(proto, {**texts, "card": json.dumps(card, sort_keys=True, separators=(",", ":"))})
    (tmp_path / "model.onnx").write_bytes(sealed(proto))
    with pytest.raises(ModelFileError, match="no intact file"):
        open_model(tmp_path / "model.onnx")


def test_larger_files_than_allowed_are_not_read(file, monkeypatch):
    monkeypatch.setattr("normscope.export.exported_file.LARGEST", 100)
    with pytest.raises(ModelFileError, match="more than the 100 allowed"):
        open_model(file)


def test_it_is_served_like_the_model(file, explaining, parts):
    from starlette.testclient import TestClient

    from normscope.cli import opening
    from normscope.server.app import make_app

    paths = sorted((parts / "bad").iterdir())
    with TestClient(make_app(lambda: {"exported": opening.open_model(file, "auto", 0.2)})) as client:
        while not client.app.state.service.ready:
            time.sleep(0.01)
        answer = client.post(
            "/score?heatmaps=true", files=[("files", (path.name, path.read_bytes())) for path in paths]
        )
    expected = load(explaining).at(0.2).rows(paths)
    for found, row in zip(answer.json(), expected, strict=True):
        assert found["score"] == pytest.approx(row["score"], rel=1e-3)
        assert (found["anomalous"], found["p_value"]) == (row["anomalous"], row["p_value"])
        assert found["heatmap"]


def test_it_runs_on_the_cpu_alone(file):
    with pytest.raises(SettingError, match="CPU"):
        open_model(file, device="cuda")


@pytest.mark.parametrize("output", ["score", "p_value", "anomalous", "heat_map"])
def test_a_graph_that_disagrees_is_not_written(output, explaining, exported, tmp_path, monkeypatch):
    right = onnx_file.runner(exported["onnx"].read_bytes())

    def wrong(pixels):
        found = right(pixels)
        return {**found, output: ~found[output] if output == "anomalous" else 1.01 * found[output] + 0.01}

    monkeypatch.setattr(onnx_file, "runner", lambda data: wrong)
    monkeypatch.setattr("normscope.export.exporting.to_onnx", lambda model: onnx.load(exported["onnx"]))
    with pytest.raises(ExportError, match="disagrees"):
        export(load(explaining), "onnx", tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_without_the_extra_there_is_a_line_that_says_what_to_install(explaining, file, tmp_path, monkeypatch):
    for name in ("onnx", "openvino"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    for use in (lambda: open_model(file), lambda: export(load(explaining), "onnx", tmp_path / "model.onnx")):
        with pytest.raises(ImportError, match=r"pip install 'normscope\[export\]'"):
            use()
