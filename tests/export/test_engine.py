"""Which engine scores, and what happens when one cannot."""

import json
from dataclasses import replace

import onnx
import pytest
import torch

from normscope.errors import SettingError
from normscope.export import engine
from normscope.export.engine import place, with_engine
from normscope.export.exported import Exported, checksum_of, open_model
from normscope.model import load

MANY = 10**9


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "normscope" / "engines"


@pytest.fixture
def exports(exported, monkeypatch):
    """A call for each export, which gives a graph that is there already."""
    calls = []

    def counted(model):
        calls.append(model)
        return onnx.load(exported["onnx"])

    monkeypatch.setattr(engine, "to_onnx", counted)
    return calls


@pytest.fixture
def speeds(monkeypatch):
    """As if engines took these times."""
    taken = {"eager": 2.0, "graph": 1.0}
    monkeypatch.setattr(
        engine,
        "seconds_an_image",
        lambda model: taken["graph" if isinstance(model.method, Exported) else "eager"],
    )
    return taken


def test_the_fastest_engine_is_measured_once_and_gives_the_same_rows(explaining, parts, cache, exports, speeds):
    model, notes = load(explaining), []
    first = with_engine(model, explaining, MANY, "auto", notes.append)
    again = with_engine(model, explaining, MANY, "auto", notes.append)
    assert len(exports) == 1
    assert len(notes) == 2  # that it begins, and what was measured
    (folder,) = cache.iterdir()
    assert json.loads((folder / "times.json").read_text())["engine"] in ("onnx", "openvino")
    assert len({path.stem for path in folder.glob("graph*")}) == 1  # of the fastest alone
    paths = sorted((parts / "bad").iterdir())
    for chosen in (first, again):
        assert isinstance(chosen.method, Exported)
        assert (chosen.card, chosen.calibration) == (model.card, model.calibration)
        for found, wanted in zip(chosen.rows(paths), model.rows(paths), strict=True):
            assert found["score"] == pytest.approx(wanted["score"], rel=1e-3)


def test_few_images_stay_with_pytorch(explaining, cache, exports):
    model = load(explaining)
    assert with_engine(model, explaining, 200, "auto", print) is model
    assert with_engine(model, explaining, MANY, "eager", print) is model
    assert not exports
    assert not cache.exists()


def test_of_a_few_images_not_even_the_time_is_taken(explaining, monkeypatch):
    model = load(explaining)
    monkeypatch.setattr(engine, "seconds_an_image", lambda model: pytest.fail("longer than the work itself"))
    assert with_engine(model, explaining, 100, "auto", print) is model


def test_a_graph_that_is_hardly_faster_is_not_used(explaining, exports, speeds, cache):
    model, speeds["graph"] = load(explaining), 1.9
    assert with_engine(model, explaining, MANY, "auto", print) is model
    assert with_engine(model, explaining, MANY, "auto", print) is model
    assert len(exports) == 1
    assert not [*cache.rglob("graph*")]


def test_whatever_fails_leaves_pytorch_and_a_note(explaining, cache, speeds, monkeypatch):
    def fail(model):
        raise RuntimeError("no such operation\nand more")

    monkeypatch.setattr(engine, "to_onnx", fail)
    model, notes = load(explaining), []
    assert with_engine(model, explaining, MANY, "auto", notes.append) is model
    assert "PyTorch" in notes[-1]
    assert "(no such operation)" in notes[-1]
    assert not [*cache.iterdir()]
    with pytest.raises(RuntimeError):  # who asks for an engine is told
        with_engine(model, explaining, MANY, "onnx", print)


def test_an_engine_that_was_asked_for_is_used_for_any_number_of_images(explaining, exports, speeds):
    speeds["graph"] = 100.0
    chosen = with_engine(load(explaining), explaining, 1, "onnx", print)
    assert isinstance(chosen.method, Exported)


def test_a_damaged_cache_is_made_anew(explaining, exports, speeds):
    model = load(explaining)
    with_engine(model, explaining, 1, "onnx", print)
    folder = place(checksum_of(explaining), "onnx")
    (folder / "graph.onnx").write_bytes(b"")
    assert isinstance(with_engine(model, explaining, 1, "onnx", print).method, Exported)
    (folder / "times.json").write_text("[]")
    assert isinstance(with_engine(model, explaining, 1, "onnx", print).method, Exported)
    assert len(exports) == 3


def test_the_cache_keeps_a_few_models(cache):
    for number in range(engine.KEPT + 3):
        (cache / str(number)).mkdir(parents=True)
    engine.forget_oldest(cache)
    assert len([*cache.iterdir()]) == engine.KEPT


def test_an_exported_file_is_its_own_engine(file):
    model = open_model(file)
    assert with_engine(model, file, MANY, "auto", print) is model
    with pytest.raises(SettingError, match="exported graph already"):
        with_engine(model, file, MANY, "onnx", print)


def test_other_devices_stay_with_pytorch(explaining):
    model = replace(load(explaining), device=torch.device("meta"))
    assert with_engine(model, explaining, MANY, "auto", print) is model
