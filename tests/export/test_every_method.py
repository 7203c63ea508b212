"""Every method is exported to both formats, with small networks, or says in a line why it cannot be."""

from types import SimpleNamespace

import numpy as np
import pytest

from normscope import Detector
from normscope.datasets import digits
from normscope.errors import ExportError, SettingError
from normscope.export import onnx_file, openvino_file
from normscope.export.exported import open_model
from normscope.export.exporting import texts
from normscope.export.graph import to_onnx
from normscope.export.parity import TOLERANCE, compare, generated
from normscope.images import store
from normscope.methods import find, method_names, settings_of
from normscope.settings import build

SMALL = {"encoder": "tiny", "width": 16, "batch_size": 16, "transforms": 4, "network": "cifar10"}
OWN = {"pretrained": {"encoder": "efficientnet-lite0", "side": 64, "channels": 10, "defects": "yes"}}
OBSTACLES = {
    "adgan": ({}, "searches, for each image"),
    "anogan": ({}, "search=encoder does not"),
    "base": ({"score": "mc"}, "hash of the pixels"),
    "dsebm": ({"score": "reconstruction"}, "gradient"),
}
OTHERS = {"anogan": {"search": "encoder"}, "surprisal": {"reference": "neighbours"}}
QUICK = {"pca", "pretrained"}  # the others are run by `make test-slow`
IMAGES = digits.load().task(3).train_images


@pytest.fixture(autouse=True)
def few_folds(monkeypatch):
    """Calibration in four folds: each fits everything anew."""
    monkeypatch.setattr("normscope.folds.MOST", 4)


def fitted(name, settings):
    small = {key: value for key, value in SMALL.items() if takes(name, key, value)} | OWN.get(name, {}) | settings
    return Detector(name, settings=small, epochs=1, false_alarm_rate=0.1).fit(IMAGES[:40], allow_collapse=True).model


def takes(name, key, value):
    try:
        build(settings_of(name), {key: value})
    except SettingError:
        return False
    return True


CASES = [(name, {}) for name in method_names() if name not in ("adgan", "anogan")] + [*OTHERS.items()]
MARKED = [pytest.param(*case, marks=() if case[0] in QUICK else pytest.mark.slow) for case in CASES]


@pytest.mark.parametrize(("name", "settings"), MARKED)
def test_the_graph_scores_as_the_model_does(name, settings, tmp_path):
    model = fitted(name, settings)
    real = store.from_arrays(IMAGES[40:52], model.size)
    pixels = np.concatenate([generated(model.size), real[:].transpose(0, 2, 3, 1)])
    proto = to_onnx(model)
    for build_graph, file in ((onnx_file.build, "x.onnx"), (openvino_file.build, "x.xml")):
        built = build_graph(proto)
        parity = compare(model, built.run, pixels)
        assert parity.images == 24
        assert parity.relative < TOLERANCE
        assert (parity.heat_map is None) == (not model.method.explains or name == "dsebm")
        built.write(tmp_path / file, texts(model, "x", parity))
        again = open_model(tmp_path / file)
        assert again.scores(real) == pytest.approx(model.scores(real), rel=1e-3, abs=1e-3 * model.scores(real).std())
        if again.method.explains:
            heat, wanted = (one.heat_maps(real, model.size) for one in (again, model))
            assert np.abs(heat - wanted).max() < 1e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_is_no_forward_pass_says_so(name):
    settings, reason = OBSTACLES[name]
    method = find(name)(build(settings_of(name), settings), (3, 32, 32))
    with pytest.raises(ExportError, match=f"the method {name} cannot be exported: .*{reason}"):
        to_onnx(SimpleNamespace(method=method, card={"method": name}))


def test_without_calibration_there_are_scores_and_heat_maps():
    model = Detector("pca", false_alarm_rate=None).fit(IMAGES[:20]).model
    built = onnx_file.build(to_onnx(model))
    compare(model, built.run, generated(model.size))
    assert built.run(generated(model.size)).keys() == {"score", "heat_map"}
