import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import normscope
from normscope import Detector, artifact, inference, load
from normscope.errors import (
    ImageFolderError,
    ModelFileError,
    NormscopeError,
    NotFittedError,
    SettingError,
    TrainingError,
)
from normscope.images import store
from normscope.training import health
from normscope.training.observer import Observer


def textures(n: int, seed: int = 0, shape: tuple[int, ...] = (28, 28), level: float = 0.0) -> np.ndarray:
    """Exchangeable images: smooth noise around a grey `level`, uint8 [n, *shape]."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(128 + level, 30, (n, 4, 4))
    smooth = [np.array(Image.fromarray(one.astype(np.float32)).resize(shape[1::-1])) for one in coarse]
    grey = np.clip(np.stack(smooth), 0, 255).astype(np.uint8)
    return grey if len(shape) == 2 else np.repeat(grey[..., None], 3, -1)


def write(folder: Path, images: np.ndarray) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:03}.png" for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    return paths


@pytest.fixture(scope="module")
def fitted() -> Detector:
    return Detector("knn", false_alarm_rate=0.1).fit(textures(60))


@pytest.fixture(scope="module")
def fitted_surprisal() -> Detector:
    return Detector("surprisal", settings={"width": 16}, epochs=1).fit(textures(24), allow_collapse=True)


class TestInput:
    def test_arrays_lists_folder_and_paths_are_one(self, fitted, tmp_path):
        images = textures(9, seed=1)
        paths = write(tmp_path / "images", images)
        expected = fitted.score(images)
        colour = np.repeat(images[..., None], 3, -1)
        for same in (colour, list(images), list(colour), tmp_path / "images", str(tmp_path / "images"), paths):
            assert (fitted.score(same) == expected).all()
        assert (fitted.score(paths[::-1]) == expected[::-1]).all()
        assert (
            Detector("knn").fit(tmp_path / "images").score(images) == Detector("knn").fit(images).score(images)
        ).all()

    def test_a_list_may_mix_sizes_and_colour(self, fitted):
        mixed = [textures(1, shape=(40, 30))[0], textures(1, shape=(28, 28, 3))[0], textures(1, shape=(9, 9))[0]]
        assert fitted.score(mixed).shape == (3,)

    @pytest.mark.parametrize("dtype", [float, np.float32, np.int64, bool])
    def test_other_numbers_than_uint8_are_refused(self, fitted, dtype):
        with pytest.raises(ImageFolderError, match="give uint8 values from 0 to 255"):
            fitted.score(textures(3).astype(dtype))
        with pytest.raises(ImageFolderError, match="give uint8 values from 0 to 255"):
            Detector("knn").fit(textures(20).astype(dtype))

    def test_a_file_that_cannot_be_read_raises_but_stray_files_do_not(self, fitted, tmp_path):
        write(tmp_path, textures(3))
        (tmp_path / "notes.txt").write_text("not an image")
        (tmp_path / ".DS_Store").write_text("hidden")
        assert fitted.score(tmp_path).shape == (3,)
        (tmp_path / "broken.png").write_bytes(b"\x89PNG cut off")
        with pytest.raises(ImageFolderError, match=r"broken.png cannot be read .*score_paths"):
            fitted.score(tmp_path)

    def test_fit_goes_round_broken_files_and_counts_them(self, tmp_path):
        write(tmp_path, textures(12))
        (tmp_path / "broken.png").write_bytes(b"\x89PNG cut off")
        (tmp_path / "notes.txt").write_text("not an image")
        data = Detector("knn").fit(tmp_path).card["data"]
        assert (data["images"], data["skipped"], data["trained_on"]) == (12, 2, 12)

    @pytest.mark.parametrize(
        "images",
        [textures(1), textures(7), np.repeat(textures(1), 20, 0), np.zeros((20, 28, 28), np.uint8)],
        ids=["one", "few", "identical", "flat"],
    )
    def test_nothing_to_learn_from_is_refused_and_leaves_nothing(self, images, tmp_path):
        one = Detector("knn").fit(textures(20))
        with pytest.raises(ImageFolderError):
            one.fit(images, checkpoint=tmp_path / "checkpoint")
        with pytest.raises(NotFittedError):
            one.score(images)
        assert not list(tmp_path.iterdir())


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"method": "nothing"}, "no method 'nothing'; choose from .*base"),
            ({"method": ""}, "no method ''"),
            ({"settings": {"kk": 1}}, "no setting 'kk'; did you mean 'k'"),
            ({"settings": {"k": "many"}}, "setting 'k' cannot be 'many'; give a whole number"),
            ({"settings": {"k": 0}}, "setting 'k' cannot be 0"),
            ({"method": "vae", "settings": {"batch_size": -3}}, "setting 'batch_size' cannot be -3"),
            ({"device": "abacus"}, "no device 'abacus' here; choose from auto"),
            ({"size": 27}, "size is 27; give auto, or pixels from 28 to 1024: one number for a square, or height and"),
            ({"size": 1025}, "size is 1025"),
            ({"size": (20, 560)}, r"size is \(20, 560\); give auto, or pixels from 28 to 1024"),
            ({"size": (560, 1025)}, r"size is \(560, 1025\)"),
            ({"size": (64,)}, r"size is \(64,\)"),
            ({"size": (3, 64, 64)}, r"size is \(3, 64, 64\)"),
            ({"size": (64, 64.5)}, r"size is \(64, 64.5\)"),
            ({"size": ("64", "64")}, r"size is \('64', '64'\)"),
            ({"size": "64x64"}, "size is '64x64'"),
            ({"size": True}, "size is True"),
            ({"size": None}, "size is None"),
            (
                {"size": (64, 128), "method": "surprisal"},
                "surprisal takes squares alone; give one number, or use one of",
            ),
            ({"size": "big"}, "size is 'big'"),
            ({"size": 30.0}, "size is 30.0"),
            ({"budget": "soon"}, "'soon' is not a budget"),
            ({"budget": "0s"}, "not a budget"),
            ({"budget": 0}, "budget is 0"),
            ({"budget": -1.0}, "budget is -1.0; give seconds above 0"),
            ({"budget": math.nan}, "budget is nan"),
            ({"budget": math.inf}, "budget is inf"),
            ({"epochs": -1}, "epochs is -1; give a whole number from 1 on, or 0"),
            ({"epochs": 1.5}, "epochs is 1.5; give a whole number"),
            ({"seed": -1}, "seed is -1"),
            ({"seed": "a"}, "seed is 'a'"),
            ({"false_alarm_rate": 0}, "false-alarm rate 0 is not between 0 and 1"),
            ({"false_alarm_rate": 1}, "not between 0 and 1"),
            ({"false_alarm_rate": math.nan}, "not between 0 and 1"),
        ],
    )
    def test_a_wrong_one_is_refused_at_once(self, options, message):
        with pytest.raises(SettingError, match=message):
            Detector(**{"method": "knn", **options})

    @pytest.mark.parametrize(
        ("given", "budget", "epochs"),
        [
            ({}, 300.0, None),
            ({"budget": "2m"}, 120.0, None),
            ({"budget": 7}, 7.0, None),
            ({"epochs": 3}, None, 3),
            ({"budget": "1h", "epochs": 3}, 3600.0, 3),
        ],
    )
    def test_how_long(self, given, budget, epochs):
        one = Detector("knn", **given)
        assert (one.options.budget, one.options.epochs) == (budget, epochs)

    @pytest.mark.parametrize(
        ("size", "expected"),
        [("auto", "auto"), (32, (32, 32)), ((224, 560), (224, 560)), ([28, 1024], (28, 1024)), (1024, (1024, 1024))],
    )
    def test_a_size_is_auto_a_side_or_height_and_width(self, size, expected):
        assert Detector("knn", size=size).options.size == expected
        height, width = np.array([30, 40])
        assert Detector("knn", size=(height, width)).options.size == (30, 40)

    def test_numpy_numbers_will_do(self, tmp_path):
        one = Detector("knn", seed=np.int64(3), size=np.int32(32), epochs=np.int64(1), budget=np.float32(2))
        one.fit(textures(10)).save(tmp_path / "model")
        assert load(tmp_path / "model").card["training"]["seed"] == 3

    def test_budget_and_epochs_are_both_limits(self):
        few = Detector(
            "surprisal", settings={"width": 16, "batch_size": 8}, budget="1h", epochs=1, false_alarm_rate=None
        )
        steps = few.fit(textures(32), allow_collapse=True).card["training"]["steps"]
        assert steps == 4
        short = Detector("surprisal", settings={"width": 16, "batch_size": 8}, budget=1e-9, epochs=9)
        assert short.fit(textures(32), allow_collapse=True).card["training"]["steps"] == 1


class TestVerdict:
    def test_p_value_threshold_and_predict_agree(self, fitted):
        images = np.concatenate([textures(40, seed=2), textures(40, seed=3, level=60)])
        scores, p, flagged = fitted.score(images), fitted.p_value(images), fitted.predict(images)
        calibration = fitted.calibration
        assert p.dtype == np.float64
        assert flagged.dtype == np.bool_
        assert ((p > 0) & (p <= 1)).all()
        assert (flagged == (scores > calibration.threshold)).all()
        assert (flagged == (p <= calibration.achievable)).all()
        assert 0 < flagged.sum() < len(images)
        assert (np.diff(p[np.argsort(scores)]) <= 0).all()
        held = np.array([(calibration.scores >= score).sum() for score in scores])
        assert p == pytest.approx((1 + held) / (1 + len(calibration.scores)))

    def test_the_false_alarm_rate_is_kept(self):
        """On average over draws of everything: with m = 99 images, 5 / 100 of fresh normal images, or fewer."""
        rates = []
        for draw in range(40):
            images = textures(299, seed=1000 + draw)
            one = Detector("knn", false_alarm_rate=0.05, seed=draw).fit(images[:99])
            assert len(one.calibration.scores) == 99
            rates.append(one.predict(images[99:]).mean())
        # Given the calibration set the rate follows Beta(5, 95), standard deviation 0.022; then 200 trials each.
        error = math.sqrt((0.022**2 + 0.05 * 0.95 / 200) / 40)
        assert 0.025 < np.mean(rates) < 0.05 + 3 * error

    def test_a_method_that_trains_holds_images_out(self, fitted_surprisal):
        assert fitted_surprisal.card["calibration"].items() >= {"kind": "split", "images": 6}.items()
        assert fitted_surprisal.card["data"]["trained_on"] == 18

    def test_a_method_that_trains_nothing_learns_from_all(self, fitted):
        assert fitted.card["calibration"].items() >= {"kind": "cross", "images": 60}.items()
        assert fitted.card["data"]["trained_on"] == 60
        assert len(fitted.model.reference["pixels"]) == 60

    def test_a_rate_that_cannot_be_promised_is_said(self):
        one = Detector("knn", false_alarm_rate=0.001).fit(textures(40))
        assert one.calibration.achievable == pytest.approx(1 / 41)
        assert (
            "40 calibration images can promise a false-alarm rate of 2.44 % at best" in one.card["calibration"]["note"]
        )

    def test_none_trains_on_all_and_gives_scores_alone(self, tmp_path):
        images = textures(30)
        one = Detector("knn", false_alarm_rate=None).fit(images)
        one.save(tmp_path / "model")
        for same in (one, load(tmp_path / "model")):
            assert same.card["calibration"] is None
            assert same.card["data"]["trained_on"] == 30
            assert np.isfinite(same.score(images)).all()
            for ask in (same.p_value, same.predict):
                with pytest.raises(NotFittedError, match="false_alarm_rate"):
                    ask(images)
            row = same.score_paths(write(tmp_path / "images", images[:1]))[0]
            assert (row["p_value"], row["anomalous"], row["error"]) == (None, None, None)
            assert math.isfinite(row["score"])


class TestExplain:
    @pytest.mark.parametrize("shape", [(28, 28), (40, 33), (70, 50, 3)])
    def test_maps_have_the_size_of_the_arrays(self, fitted_surprisal, shape):
        images = textures(3, shape=shape)
        for given in (images, list(images)):
            maps = fitted_surprisal.explain(given)
            assert maps.shape == (3, *shape[:2])
            assert maps.dtype == np.float64
            assert np.isfinite(maps).all()

    def test_maps_of_files_and_of_mixed_sizes_have_the_detectors_size(self, fitted_surprisal, tmp_path):
        paths = write(tmp_path, textures(2, shape=(50, 40)))
        assert fitted_surprisal.explain(paths).shape == (2, 28, 28)
        assert fitted_surprisal.explain([textures(1)[0], textures(1, shape=(9, 9))[0]]).shape == (2, 28, 28)

    def test_maps_of_a_rectangle_are_not_turned_over(self, tmp_path):
        images = textures(20, shape=(30, 60))
        one = Detector("pca", false_alarm_rate=None).fit(images)
        odd = images[:1].copy()
        odd[0, 2:8, 50:58] = 255 - odd[0, 2:8, 50:58]
        for given in (odd, write(tmp_path, odd)):
            (heat,) = one.explain(given)
            assert heat.shape == (30, 60)
            assert 2 <= np.unravel_index(heat.argmax(), heat.shape)[0] < 8
            assert 50 <= np.unravel_index(heat.argmax(), heat.shape)[1] < 58

    def test_a_method_that_cannot_says_so(self, fitted):
        with pytest.raises(SettingError, match="knn cannot say where"):
            fitted.explain(textures(2))


class TestRows:
    def test_one_for_each_path_in_order(self, fitted, tmp_path):
        images = textures(4, seed=7)
        good = write(tmp_path / "good", images)
        broken, empty, missing = tmp_path / "broken.png", tmp_path / "empty.png", tmp_path / "missing.png"
        broken.write_bytes(good[0].read_bytes()[:60])
        empty.touch()
        rows = fitted.score_paths([good[0], broken, good[1], str(empty), missing, good[2], good[0], tmp_path])
        assert [row["error"] is None for row in rows] == [True, False, True, False, False, True, True, False]
        assert [row.keys() for row in rows] == [{"path", "score", "p_value", "p_estimate", "anomalous", "error"}] * 8
        assert [row["path"] for row in rows[:2]] == [str(good[0]), str(broken)]
        assert [rows[i]["score"] for i in (0, 2, 5, 6)] == fitted.score(images)[[0, 1, 2, 0]].tolist()
        for row in rows:
            if row["error"]:
                assert (row["score"], row["p_value"], row["p_estimate"], row["anomalous"]) == (None,) * 4
        assert "0 bytes" in rows[3]["error"]
        assert "No such file" in rows[4]["error"]
        json.dumps(rows, allow_nan=False)
        for row, image in zip((rows[0], rows[2]), images[:2], strict=True):
            assert row["p_value"] == fitted.p_value(image[None])[0]
            assert row["anomalous"] is bool(fitted.predict(image[None])[0])

    def test_a_path_whose_second_read_fails_shifts_no_score(self, fitted, tmp_path, monkeypatch):
        first, second = write(tmp_path, textures(2, seed=7))
        decode, read = store._decode, []

        def fails_at_second(path, size, most):
            read.append(path)
            return "gone" if read.count(first) == 2 and path == first else decode(path, size, most)

        monkeypatch.setattr(store, "_decode", fails_at_second)
        monkeypatch.setattr(store, "THREADS", 1)
        rows = fitted.score_paths([first, first, second])
        assert [row["error"] for row in rows] == [None, "gone", None]
        assert [rows[0]["score"], rows[2]["score"]] == fitted.score(textures(2, seed=7)).tolist()

    def test_no_paths_no_rows(self, fitted):
        assert fitted.score_paths([]) == []

    def test_only_two_batches_of_images_are_in_memory(self, fitted, tmp_path, monkeypatch):
        paths = write(tmp_path, textures(3)) * 100
        read: list[Path] = []
        decode = store._decode

        def counted(path, *options):
            read.append(path)
            return decode(path, *options)

        monkeypatch.setattr(store, "_decode", counted)
        rows = fitted.model.rows(paths)
        next(rows)
        assert inference.BATCH <= len(read) <= 2 * inference.BATCH
        assert len(list(rows)) == 299
        assert len(read) == 300
        read.clear()
        monkeypatch.setattr(type(fitted.model.method), "scores_quickly", False)
        next(fitted.model.rows(paths))
        assert 16 <= len(read) <= 32


class TestModelFile:
    @pytest.fixture
    def model(self, fitted, tmp_path) -> Path:
        fitted.save(tmp_path / "model.safetensors")
        return tmp_path / "model.safetensors"

    def test_the_card(self, model, fitted):
        card, checksum = artifact.read_card(model)
        assert card == fitted.card
        assert card["method"] == "knn"
        assert card["settings"] == {"k": 5}
        assert card["preprocessing"] == {
            "channels": 3,
            "size": [28, 28],
            "resize": "the whole image to this height and width, whatever its aspect ratio",
            "range": [-1, 1],
        }
        assert card["calibration"]["rate"] == 0.1
        assert card["calibration"]["images"] == 60
        assert card["calibration"]["threshold"] == fitted.calibration.threshold
        assert card["data"].items() >= {"images": 60, "trained_on": 60, "skipped": 0, "grey": True}.items()
        assert card["data"]["sha256"] == store.from_arrays(textures(60), (28, 28)).sha256
        assert card["training"].items() >= {"seed": 0, "epochs": None, "budget": 300.0, "health": "ok"}.items()
        assert (card["normscope"], card["torch"]) == (normscope.__version__, torch.__version__)
        assert checksum == fitted.save(model)

    def test_every_flipped_bit_is_refused(self, model):
        data = model.read_bytes()
        rng = np.random.default_rng(0)
        for place in [0, 8, 9, 200, len(data) - 1, *rng.integers(0, len(data), 40)]:
            damaged = bytearray(data)
            damaged[place] ^= 1 << rng.integers(8)
            model.write_bytes(damaged)
            with pytest.raises(ModelFileError):
                load(model)

    @pytest.mark.parametrize("content", [b"", b"\xff\xd8\xff\xe0 a picture", b"{}", b"\x80\x04\x95pickle", None])
    def test_another_file_is_refused(self, content, tmp_path):
        path = tmp_path / "thing"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ModelFileError, match="thing"):
            load(path)

    def test_a_file_without_a_whole_model_is_refused(self, model):
        tensors, card, _ = artifact.load(model)
        for damage in (
            {**card, "method": "nothing"},
            {**card, "settings": {"kk": 1}},
            {**card, "settings": None, "training": None},
            *({**card, "preprocessing": {"size": size}} for size in ([10**6, 10**6], [28, 10**6], [28], [28, 28, 28])),
            *({**card, "preprocessing": {"size": size}} for size in (28, "auto", None, [28, "28"], [28.0, 28.0])),
            {**card, "calibration": {"rate": 7}},
            {},
        ):
            artifact.save(model, tensors, damage)
            with pytest.raises(ModelFileError, match="fit it again"):
                load(model)

    def test_a_model_without_its_reference_is_refused(self, model):
        tensors, card, _ = artifact.load(model)
        for lacking in ({}, {**tensors, "reference.pixels": torch.zeros(3, 7)}):
            artifact.save(model, {**lacking, "calibration.scores": tensors["calibration.scores"]}, card)
            with pytest.raises(ModelFileError, match="fit it again"):
                load(model)

    def test_a_card_that_asks_for_many_or_wide_layers_is_refused_at_once(self, fitted_surprisal, tmp_path):
        fitted_surprisal.save(tmp_path / "model")
        tensors, card, _ = artifact.load(tmp_path / "model")
        for settings in ({"width": 4096}, {"depth": 10**6}):
            artifact.save(tmp_path / "model", tensors, {**card, "settings": {**card["settings"], **settings}})
            with pytest.raises(ModelFileError, match="fit it again"):
                load(tmp_path / "model")

    def test_a_file_with_whole_matrices_as_format_5_has_them_is_read(self, fitted_surprisal, tmp_path, monkeypatch):
        now, before = tmp_path / "now", tmp_path / "before"
        fitted_surprisal.save(now)
        monkeypatch.setattr(artifact, "FORMAT", "5")
        monkeypatch.setattr("normscope.model.packed", dict)
        fitted_surprisal.save(before)
        monkeypatch.undo()
        assert now.stat().st_size < before.stat().st_size
        images = textures(5)
        for path in (now, before):
            assert np.array_equal(load(path).score(images), fitted_surprisal.score(images))

    def test_two_fits_with_one_seed_give_the_same_bytes(self, tmp_path):
        for name in ("one", "other"):
            Detector("knn", seed=3).fit(textures(20)).save(tmp_path / name)
        assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()

    def test_weights_of_another_shape_are_refused(self, fitted_surprisal, tmp_path):
        fitted_surprisal.save(tmp_path / "model")
        tensors, card, _ = artifact.load(tmp_path / "model")
        artifact.save(tmp_path / "model", tensors, {**card, "settings": {**card["settings"], "width": 32}})
        with pytest.raises(ModelFileError, match="fit it again"):
            load(tmp_path / "model")

    def test_nothing_is_pickled(self, model, monkeypatch):
        import pickle

        def forbidden(*args, **kwargs):
            raise AssertionError("pickle")

        for name in ("load", "loads", "Unpickler", "dump", "dumps", "Pickler"):
            monkeypatch.setattr(pickle, name, forbidden)
        monkeypatch.setattr(torch, "load", forbidden)
        monkeypatch.setattr(torch, "save", forbidden)
        load(model).save(model)

    def test_a_loaded_detector_can_be_fitted_again(self, model, fitted):
        again = load(model).fit(textures(60))
        assert (again.score(textures(5, seed=9)) == fitted.score(textures(5, seed=9))).all()
        assert again.calibration.rate == 0.1

    def test_saving_into_nowhere_says_where(self, fitted, tmp_path):
        with pytest.raises(ModelFileError, match="choose a folder that exists"):
            fitted.save(tmp_path / "nowhere" / "model")


class TestCollapse:
    @pytest.fixture(autouse=True)
    def everything_counts_as_collapsed(self, monkeypatch):
        monkeypatch.setattr(health, "LEAST_SPREAD", math.inf)

    def test_is_an_error_that_leaves_no_model_and_no_checkpoint(self, tmp_path):
        one = Detector("surprisal", settings={"width": 16}, epochs=1)
        with pytest.raises(TrainingError, match=r"collapsed: .*try a smaller beta.*allow a collapse"):
            one.fit(textures(20), checkpoint=tmp_path / "checkpoint")
        with pytest.raises(NotFittedError):
            one.score(textures(3))
        assert not list(tmp_path.iterdir())

    def test_is_recorded_when_it_is_allowed(self):
        one = Detector("surprisal", settings={"width": 16}, epochs=1)
        one.fit(textures(20), allow_collapse=True)
        assert one.card["training"]["health"].startswith("collapsed: ")
        assert np.isfinite(one.score(textures(3))).all()


def test_a_value_that_is_not_finite_stops_training(tmp_path):
    one = Detector("surprisal", settings={"width": 16, "learning_rate": 1e30, "batch_size": 8}, epochs=20)
    with pytest.raises(TrainingError, match="smaller learning_rate"):
        one.fit(textures(20), checkpoint=tmp_path / "checkpoint")
    assert not list(tmp_path.iterdir())


def test_progress_is_told_to_the_caller(tmp_path):
    paths, done, seen = write(tmp_path, textures(20)), {}, []

    class Told(Observer):
        def images(self, doing, n, of):
            done.setdefault(doing, []).append((n, of))

        def step(self, progress):
            seen.append(progress)

    one = Detector("surprisal", settings={"width": 16, "batch_size": 4}, epochs=2, false_alarm_rate=0.1)
    one.fit(paths, allow_collapse=True, observer=Told())
    held = len(one.calibration.scores)
    assert list(done) == ["reading", "summing up", "scoring", "calibrating"]
    assert done["reading"] == [(n, 20) for n in range(1, 21)]
    assert done["summing up"] == [*2 * [(0, 10), (10, 10)], (0, 20 - held), (20 - held, 20 - held)]
    assert done["calibrating"] == [(0, held), (held, held)]
    assert done["scoring"] == 2 * [(0, 10), (10, 10)]
    steps = 2 * ((20 - held) // 4)
    assert [(now.step, now.steps) for now in seen] == [(step, steps) for step in range(1, steps + 1)]
    assert all(math.isfinite(now.record["loss"]) for now in seen)


class TestSquashing:
    @pytest.mark.parametrize(
        ("method", "options", "shape", "said"),
        [
            ("knn", {}, (40, 100), None),
            ("surprisal", {}, (40, 50), None),
            (
                "surprisal",
                {},
                (40, 100),
                "2.5 times as wide as high .* 40x40 .*; one of knn, ocsvm, pca, .* would keep",
            ),
            ("knn", {"size": (40, 40)}, (40, 100), "2.5 times as wide as high .* 40x40 .*; size auto would keep their"),
            ("knn", {}, (30, 300), "10 times as wide as high .* 30x90 .*; cut them into shorter pieces"),
        ],
    )
    def test_is_said_with_what_to_do(self, method, options, shape, said):
        notes: list[str] = []

        class Told(Observer):
            def note(self, text):
                notes.append(text)

        settings = {"width": 16} if method == "surprisal" else {}
        one = Detector(method, settings=settings, epochs=0, **options)
        one.fit(textures(16, shape=shape), allow_collapse=True, observer=Told())
        assert len(notes) == (said is not None)
        assert said is None or re.search(said, notes[0])
        assert one.card["data"]["aspect_ratio"] == pytest.approx(shape[1] / shape[0], abs=1e-4)


def test_the_public_names():
    assert normscope.__all__ == ["Detector", "load"]
    assert issubclass(NotFittedError, NormscopeError)
    with pytest.raises(AttributeError, match="nothing"):
        _ = normscope.nothing


def test_an_observer_that_fails_leaves_nothing_fitted():
    class Failing(Observer):
        every = 1

        def epoch(self, progress, method, reference):
            raise ValueError("not today")

    detector = Detector("surprisal", settings={"width": 16}, epochs=2)
    with pytest.raises(ValueError, match="not today"):
        detector.fit(textures(24), allow_collapse=True, observer=Failing())
    with pytest.raises(NotFittedError):
        detector.score(textures(1))


class TestCodes:
    def test_a_code_for_each_image(self):
        detector = Detector("base", settings={"preset": "paper", "encoder": "tiny"}, epochs=1, false_alarm_rate=None)
        detector.fit(textures(16), allow_collapse=True)
        codes = detector.codes(textures(3))
        assert codes.shape == (3, 128)
        assert codes.dtype == np.float64
        squared = (codes**2).sum(1)
        assert np.allclose(-20 * np.tanh(squared / 128 / 20), detector.score(textures(3)), rtol=1e-4)

    def test_a_method_without_says_so(self, fitted):
        with pytest.raises(SettingError, match="the method knn has no codes"):
            fitted.codes(textures(1))


class TestAnomalies:
    def test_a_method_that_learns_from_normal_images_alone_says_so(self, tmp_path):
        write(tmp_path / "bad", textures(3))
        with pytest.raises(SettingError, match="the method knn learns from normal images alone"):
            Detector("knn").fit(textures(24), anomalies=tmp_path / "bad")
