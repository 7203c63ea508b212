"""Whatever comes in whatever order: fit, save, load, score, recalibrate and kill; random bytes; odd settings."""

import json
import os
import shutil
import signal
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from small_methods import NAMES, detector, pictures

from normscope.errors import ImageError, ModelFileError, SettingError
from normscope.images.reader import decode
from normscope.methods import settings_of
from normscope.model import load
from normscope.sealed import SealError, read
from normscope.settings import build, parse, to_json

PROBE = pictures(2, seed=9)
COMMON = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@cache
def fitted(method, seed, n):
    """One value however often it is asked for: a model is never written to."""
    return detector(method, seed=seed).fit(pictures(n, seed=seed)).model


class ModelFile(RuleBasedStateMachine):
    """A file and what it must hold: always a whole model, the one that was saved last."""

    begun = 0

    def __init__(self) -> None:
        super().__init__()
        ModelFile.begun += 1
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "model"
        self.model = None  # in memory
        self.saved = None  # the scores, threshold and bytes of what is in the file

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def told(self, model):
        return model.scores(read_arrays(model)).tolist(), model.calibration.threshold, len(model.calibration.scores)

    @rule(method=st.sampled_from(["knn", "pca"]), seed=st.integers(0, 3), n=st.integers(8, 12))
    def fit(self, method, seed, n) -> None:
        self.model = fitted(method, seed, n)

    @precondition(lambda self: self.model)
    @rule(rate=st.floats(0.01, 0.99))
    def change_rate(self, rate) -> None:
        self.model = self.model.at(rate)

    @precondition(lambda self: self.model)
    @rule(name=st.integers(0, 3), score=st.floats(0, 1e6))
    def recalibrate(self, name, score) -> None:
        joined = self.model.calibration.joined_by({f"{name:064x}": score})
        assert len(joined.unreviewed.scores) == len(self.model.calibration.unreviewed.scores)
        self.model = self.model.calibrated(joined)

    @precondition(lambda self: self.model)
    @rule()
    def save(self) -> None:
        self.model.save(self.path)
        self.saved = (*self.told(self.model), self.path.read_bytes())

    @precondition(lambda self: self.model and hasattr(os, "fork"))
    @rule(call=st.integers(1, 3), late=st.booleans())
    def kill_while_saving(self, call, late) -> None:
        child = os.fork()
        if child == 0:
            die_at(call, late)
            self.model.save(self.path)
            os._exit(0)
        os.waitpid(child, 0)
        new = self.path.read_bytes() if self.path.exists() else None
        if new is not None and (self.saved is None or new != self.saved[3]):
            self.saved = (*self.told(self.model), new)  # it came as far as the rename
        assert self.path.exists() == (self.saved is not None)

    @precondition(lambda self: self.saved)
    @rule()
    def load(self) -> None:
        self.model = load(self.path)

    @precondition(lambda self: self.saved)
    @rule(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
    def damage(self, place, bit) -> None:
        data = bytearray(self.saved[3])
        data[int(place * len(data))] ^= 1 << bit
        self.path.write_bytes(data)
        with pytest.raises(ModelFileError):
            load(self.path)
        self.path.write_bytes(self.saved[3])

    @invariant()
    def the_file_is_what_was_saved_last(self) -> None:
        if self.saved:
            assert self.path.read_bytes() == self.saved[3]
            assert self.told(load(self.path)) == self.saved[:3]


def read_arrays(model):
    from normscope.intake import read as read_images

    return read_images(PROBE, model.size)


def die_at(call, late):
    """Kills this process before or after its n-th fsync or rename."""
    left = [call]

    def guarded(real):
        def one(*arguments, **options):
            left[0] -= 1
            if left[0] == 0 and not late:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments, **options)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return one

    os.fsync, os.replace = guarded(os.fsync), guarded(os.replace)


@pytest.mark.parametrize("sequences", [5, pytest.param(1_000, marks=pytest.mark.soak)])
def test_a_file_is_always_the_model_that_was_saved_last(tally, sequences):
    ModelFile.begun = 0
    options = settings(max_examples=sequences, stateful_step_count=12, **COMMON)
    with tallied(
        tally, "sequences of fit, save, load, score, recalibrate, damage and kill", lambda: ModelFile.begun, sequences
    ):
        run_state_machine_as_test(ModelFile, settings=options)


@contextmanager
def tallied(tally, what, count, least):
    """Counts what really ran: Hypothesis may stop early, and after a failure runs more. A failure is a loss."""
    try:
        yield
    except Exception:
        tally(what, count(), 1)
        raise
    assert count() >= least
    tally(what, count(), 0)


STARTS = [
    b"",
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff\xe0",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"GIF89a",
    b"RIFF\0\0\0\0WEBPVP8 ",
    b"P6 ",
]


def never_worse_than_an_image_error(data):
    try:
        assert decode(data, max_pixels=10**6).pixels.dtype == np.uint8
    except ImageError as error:
        assert "\n" not in str(error)  # noqa: PT017


def never_worse_than_a_seal_error(path, data):
    path.write_bytes(data)
    with pytest.raises(SealError):
        read(path)


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.soak)])
def test_random_bytes_are_no_image_and_no_model(tmp_path, tally, count):
    ran = []

    @settings(max_examples=count, **COMMON)
    @given(st.sampled_from(STARTS), st.binary(max_size=400))
    def attempt(start, data):
        ran.append(None)
        never_worse_than_an_image_error(start + data)
        never_worse_than_a_seal_error(tmp_path / "file", len(data).to_bytes(8, "little") + b"{" + data)

    with tallied(tally, "random bytes as images and as model files", lambda: len(ran), count):
        attempt()


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.lists(st.integers(), max_size=3)
)


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.soak)])
def test_settings_survive_json_and_odd_values_are_refused(tally, count):
    keys, ran = {name: list(to_json(settings_of(name)())) for name in NAMES}, []

    @settings(max_examples=count, **COMMON)
    @given(st.data())
    def attempt(data):
        ran.append(None)
        name = data.draw(st.sampled_from([name for name in NAMES if keys[name]]))
        values = data.draw(st.dictionaries(st.sampled_from(keys[name]), VALUES, max_size=3))
        try:
            built = build(settings_of(name), values)
            written = to_json(built)
        except SettingError:
            return
        assert build(settings_of(name), json.loads(json.dumps(written, allow_nan=False))) == built

    with tallied(tally, "settings of odd values, refused or the same after JSON", lambda: len(ran), count):
        attempt()


@settings(max_examples=100, **COMMON)
@given(st.sampled_from(NAMES), st.text(max_size=20))
def test_a_setting_from_the_command_line_is_read_or_refused(name, text):
    try:
        parse(settings_of(name), [text])
    except SettingError as error:
        assert str(error)  # noqa: PT017
