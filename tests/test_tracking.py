"""Trackers of a fit: stand-ins keep what they are told, and the real packages are used where they are installed."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from normscope import Detector
from normscope.errors import NormscopeError, SettingError
from normscope.tracking import mlflow, tensorboard, tracker

IMAGES = np.random.default_rng(0).integers(0, 256, (24, 28, 28), np.uint8)


def fitted(observer):
    settings = {"width": 4, "code": 4, "batch_size": 8}
    return Detector("vae", settings=settings, epochs=2, false_alarm_rate=0.2).fit(
        IMAGES, observer=observer, allow_collapse=True
    )


class Writer:
    """Stands in for torch.utils.tensorboard.SummaryWriter."""

    def __init__(self, folder) -> None:
        self.folder, self.scalars, self.texts, self.closed = folder, [], {}, False
        Writer.last = self

    def add_scalar(self, name, value, step=None) -> None:
        self.scalars.append((name, float(value), step))

    def add_text(self, name, text) -> None:
        self.texts[name] = text

    def close(self) -> None:
        self.closed = True


class Client:
    """Stands in for mlflow.MlflowClient."""

    def __init__(self, tracking_uri) -> None:
        self.uri, self.experiments, self.metrics, self.params, self.dicts = tracking_uri, [], [], {}, {}
        self.status, self.batches = None, []
        Client.last = self

    def get_experiment_by_name(self, name) -> None:
        return None

    def create_experiment(self, name) -> str:
        self.experiments.append(name)
        return "7"

    def create_run(self, experiment):
        assert experiment == "7"
        return SimpleNamespace(info=SimpleNamespace(run_id="run"))

    def log_batch(self, run, metrics) -> None:
        self.batches.append(len(metrics))
        self.metrics += metrics

    def log_param(self, run, name, value) -> None:
        self.params[name] = value

    def log_dict(self, run, content, file) -> None:
        self.dicts[file] = content

    def set_terminated(self, run, status) -> None:
        self.status = status


class RefusalError(Exception):
    """Stands in for mlflow.exceptions.MlflowException."""


@pytest.fixture
def stand_ins(monkeypatch):
    modules = {
        "torch.utils.tensorboard": {"SummaryWriter": Writer},
        "mlflow": {"MlflowClient": Client},
        "mlflow.entities": {"Metric": lambda *values: values},
        "mlflow.exceptions": {"MlflowException": RefusalError},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)


def test_tensorboard_is_told_losses_by_step_then_settings_and_threshold(stand_ins):
    with tracker("tensorboard:runs/a") as observer:
        detector = fitted(observer)
    writer = Writer.last
    assert (writer.folder, writer.closed) == ("runs/a", True)
    losses = [(value, step) for name, value, step in writer.scalars if name.endswith("/loss")]
    steps = detector.card["training"]["steps"]
    assert [step for _, step in losses] == list(range(1, steps + 1))
    assert np.isfinite([value for value, _ in losses]).all()
    epochs = [value for name, value, _ in writer.scalars if name.endswith("/epoch")]
    assert epochs == sorted(epochs)
    assert epochs[-1] == 2
    assert writer.scalars[-1][:2] == ("threshold", detector.calibration.threshold)
    assert writer.texts["settings/width"] == "4"
    assert writer.texts["settings/method"] == "vae"
    assert f'"steps": {steps}' in writer.texts["card"]


def test_mlflow_is_told_the_same_in_few_requests(stand_ins):
    with tracker("mlflow:http://host:5000") as observer:
        detector = fitted(observer)
    client, steps = Client.last, detector.card["training"]["steps"]
    assert (client.uri, client.experiments, client.status) == ("http://host:5000", ["normscope"], "FINISHED")
    assert [step for name, _, _, step in client.metrics if name.endswith("/loss")] == list(range(1, steps + 1))
    assert client.metrics[-1][:2] == ("threshold", detector.calibration.threshold)
    assert len(client.batches) < steps
    assert client.params["width"] == "4"
    assert client.dicts == {"card.json": detector.card}


@pytest.mark.parametrize(("problem", "status"), [(KeyboardInterrupt, "KILLED"), (ValueError, "FAILED")])
def test_a_run_that_ends_early_is_no_finished_one(stand_ins, problem, status):
    with pytest.raises(problem), mlflow("uri"):
        raise problem
    assert Client.last.status == status


def refuse(self, *given):
    raise RefusalError("out of room")


def test_what_mlflow_refuses_at_first_is_one_sentence(stand_ins, monkeypatch):
    monkeypatch.setattr(Client, "create_run", refuse)
    with (
        pytest.raises(NormscopeError, match=r"MLflow cannot keep the fit at uri \(out of room\)"),
        mlflow("uri"),
    ):
        pass


@pytest.mark.parametrize("call", ["log_batch", "log_param", "log_dict", "set_terminated"])
def test_a_fit_goes_on_without_a_server_that_fails(stand_ins, monkeypatch, call):
    monkeypatch.setattr(Client, call, refuse)
    said = []
    with tracker("mlflow:http://host", said.append) as observer:
        detector = fitted(observer)
    assert said == ["MLflow at http://host failed (out of room); the fit goes on without it"]
    assert np.isfinite(detector.score(IMAGES)).all()


def test_a_fit_goes_on_without_a_disk_that_is_full(stand_ins, monkeypatch):
    def full(self, *given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Writer, "add_scalar", full)
    with (
        pytest.warns(UserWarning, match=r"TensorBoard in runs failed .*No space.*the fit goes on"),
        tensorboard("runs") as observer,
    ):
        fitted(observer)
    assert Writer.last.scalars == []


def test_an_error_of_the_fit_is_not_hidden_by_one_of_the_server(stand_ins, monkeypatch):
    monkeypatch.setattr(Client, "set_terminated", refuse)
    with pytest.raises(ZeroDivisionError), mlflow("uri", [].append):
        raise ZeroDivisionError


@pytest.mark.parametrize("text", ["wandb:x", "tensorboard", "mlflow:", ""])
def test_a_tracker_that_is_none(text):
    with pytest.raises(SettingError, match="give tensorboard:FOLDER or mlflow:URI"):
        tracker(text)


@pytest.mark.parametrize("make", [tensorboard, mlflow])
def test_without_the_package_the_install_command_is_said(make, monkeypatch):
    for name in ("mlflow", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"pip install 'normscope\[{make.__name__}\]'"), make("x"):
        pass


def test_a_real_event_file(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tensorboard(str(tmp_path)) as observer:
        detector = fitted(observer)
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    (loss,) = (name for name in events.Tags()["scalars"] if name.endswith("/loss"))
    assert len(events.Scalars(loss)) == detector.card["training"]["steps"]
    assert events.Scalars("threshold")[0].value == pytest.approx(detector.calibration.threshold, rel=1e-6)


def test_a_real_run(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = pytest.importorskip("mlflow").MlflowClient(tracking_uri=tmp_path.as_uri())
    with mlflow(tmp_path.as_uri()) as observer:
        detector = fitted(observer)
    (run,) = client.search_runs([client.get_experiment_by_name("normscope").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["threshold"] == detector.calibration.threshold
    assert run.data.params["method"] == "vae"
