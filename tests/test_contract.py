"""What every method must do, whatever it computes; a new file in methods/ is tested here without being named."""

import dataclasses
import json
import random
from functools import cache

import numpy as np
import pytest
import torch

from normscope import Detector, load
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import NotFittedError, SettingError
from normscope.fitting import INITIALISE
from normscope.inference import encoded
from normscope.intake import read
from normscope.methods import find, method_names, settings_of
from normscope.settings import build, to_json
from normscope.training import loop
from normscope.training.method import Method
from normscope.training.randomness import seeded

SMALL = {
    "encoder": "tiny",
    "width": 16,  # with fewer, some processors' kernels for strided 1×1 convolutions write out of bounds
    "batch_size": 16,
    "score_pairs": 2,
    **{"search_steps": 4, "starts": 2, "rounds": 2},  # GANs that search, for each image, the code that makes it
    "transforms": 4,
    "network": "cifar10",  # of Deep SVDD's, the one that separates digits after seconds of training
}  # for speed, where a method has such a field
OWN = {
    "base": {"encoder": "resnet", "code": 256},
    "extension": {"encoder": "resnet", "code": 256},
    "pretrained": {"encoder": "efficientnet-lite0", "side": 32, "channels": 10},
}
NORMAL = 9  # of the digits the one on which training helps most: an untrained encoder is near perfect on others
TASK = digits.load().task(NORMAL)
IMAGES, OTHERS = TASK.train_images[:32], TASK.test_images[:12]

LEARNS_AT = {  # a GAN's published rate is for thousands of steps; these let it learn within 72
    "adgan": {"learning_rate": 1e-3, "latent": 16},
    "anogan": {"learning_rate": 2e-3},
    "ganomaly": {"learning_rate": 2e-3},
}
SLOW_SCORES = {"adgan", "anogan"}  # an optimisation for each image
LEARNS_SLOWLY = {"anogan", "dagmm", "dsebm"}  # the mixture, the bias image and a GAN need more steps
every_method = pytest.mark.parametrize("name", method_names())


def small(name: str) -> dict[str, object]:
    """Those of SMALL that the method has and takes, and its own."""
    return {key: value for key, value in SMALL.items() if takes(name, key, value)} | OWN.get(name, {})


def takes(name: str, key: str, value: object) -> bool:
    try:
        build(settings_of(name), {key: value})
    except SettingError:
        return False
    return True


@pytest.fixture(autouse=True)
def few_folds(monkeypatch):
    """Calibration in four folds: each fits everything anew."""
    monkeypatch.setattr("normscope.folds.MOST", 4)


def detector(name: str, **options: object) -> Detector:
    return Detector(name, **{"settings": small(name), "epochs": 1, "false_alarm_rate": 0.2, **options})


@cache
def fitted(name: str) -> Detector:
    """The one fit that most checks share."""
    return detector(name).fit(IMAGES, allow_collapse=True)


def close(scores: np.ndarray, to: np.ndarray) -> bool:
    """Within 1e-5 of the size that scores have, at least a tenth: single ones, or all surprisals, may be near zero."""
    return bool(np.abs(scores - to).max() <= 1e-5 * max(np.abs(to).max(), np.ptp(to), 0.1))


@every_method
def test_one_name_and_one_line_say_what_it_is(name):
    assert find(name).__name__.lower() == name.replace("-", "")
    first = find(name).__doc__.splitlines()[0]
    assert 20 < len(first) <= 120
    assert first.endswith(".")


@every_method
def test_settings_are_frozen_and_have_defaults(name):
    settings = settings_of(name)()
    first = dataclasses.fields(settings)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(settings, first, 1)


@every_method
def test_settings_survive_json(name):
    for settings in (settings_of(name)(), build(settings_of(name), small(name))):
        assert build(settings_of(name), json.loads(json.dumps(to_json(settings)))) == settings


@every_method
def test_scores_are_finite_float64_of_shape_n(name):
    extremes = np.stack([np.zeros((8, 8)), np.full((8, 8), 255), np.eye(8) * 255]).astype(np.uint8)
    for images in (OTHERS, OTHERS[:1], extremes):
        before = images.copy()
        scores = fitted(name).score(images)
        assert scores.shape == (len(images),)
        assert scores.dtype == np.float64
        assert np.isfinite(scores).all()
        assert (images == before).all()
    assert len(np.unique(fitted(name).score(OTHERS))) > 1


@every_method
def test_a_second_fit_forgets_the_first_and_depends_on_its_seed_alone(name):
    again = detector(name).fit(TASK.test_images[:20], allow_collapse=True)
    torch.manual_seed(1)
    before = generators()
    again.fit(IMAGES, allow_collapse=True)
    assert (again.score(OTHERS) == fitted(name).score(OTHERS)).all()
    if again.model.method.explains:
        again.explain(OTHERS)
    assert generators() == before, "the caller's generators are left alone"


def generators():
    return torch.get_rng_state().tolist(), repr(np.random.get_state()), random.getstate()


@every_method
def test_the_score_of_an_image_is_its_own(name):
    together = fitted(name).score(OTHERS)
    alone = np.concatenate([fitted(name).score(OTHERS[i : i + 1]) for i in range(len(OTHERS))])
    others = 20 if name in SLOW_SCORES else 200  # more than a batch
    crowd = fitted(name).score(np.concatenate([TASK.test_images[100 : 100 + others], OTHERS]))[others:]
    assert close(alone, together)
    assert close(fitted(name).score(OTHERS[::-1])[::-1], together)
    assert close(crowd, together)


@every_method
def test_a_loaded_model_scores_alike_and_saves_as_the_same_file(name, tmp_path):
    fitted(name).save(tmp_path / "one")
    before = generators()
    loaded = load(tmp_path / "one")
    assert generators() == before
    assert (loaded.score(OTHERS) == fitted(name).score(OTHERS)).all()
    assert (loaded.p_value(OTHERS) == fitted(name).p_value(OTHERS)).all()
    assert loaded.options.settings == fitted(name).options.settings
    loaded.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@every_method
def test_scoring_changes_nothing_in_a_model(name):
    model = fitted(name).model
    before = {key: value.clone() for key, value in (*model.method.state_dict().items(), *model.reference.items())}
    fitted(name).score(OTHERS)
    if model.method.explains:
        fitted(name).explain(OTHERS)
    after = dict((*model.method.state_dict().items(), *model.reference.items()))
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert not any(module.training for module in model.method.modules())


@every_method
def test_finish_changes_nothing_in_a_method(name):
    method = fitted(name).model.method
    before = {key: value.clone() for key, value in method.state_dict().items()}
    reference = loop.finish(method, encoded(method, read(OTHERS, (28, 28)), torch.device("cpu")), 0)
    assert all(torch.equal(before[key], value) for key, value in method.state_dict().items())
    assert reference.keys() == fitted(name).model.reference.keys()


@every_method
def test_nothing_in_a_model_is_infinite_or_no_number(name):
    model = fitted(name).model
    for key, value in (*model.method.state_dict().items(), *model.reference.items()):
        assert torch.isfinite(value).all(), key


@every_method
def test_unfitted_raises(name, tmp_path):
    new = detector(name)
    for ask in (new.score, new.p_value, new.predict, new.explain, new.score_paths):
        with pytest.raises(NotFittedError, match="fit"):
            ask(OTHERS)
    with pytest.raises(NotFittedError):
        new.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@every_method
@pytest.mark.parametrize("shape", [(40, 40, 3), (44, 30, 3)])
def test_colour_of_any_size(name, shape):
    images = np.random.default_rng(0).integers(0, 256, (20, *shape), dtype=np.uint8)
    one = detector(name, false_alarm_rate=None).fit(images[:16], allow_collapse=True)
    side = min(shape[:2])
    assert one.model.size == (shape[:2] if find(name).rectangles else (side, side))
    assert np.isfinite(one.score(images)).all()


@pytest.mark.parametrize("name", [name for name in method_names() if find(name).rectangles])
@pytest.mark.parametrize("shape", [(36, 52), (52, 36)])
def test_rectangles_are_not_squashed(name, shape, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (20, *shape), dtype=np.uint8)
    one = detector(name).fit(images[:16])
    assert one.model.method.shape == (3, *shape)
    scores = one.score(images)
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) > 1
    assert close(one.score(images[17:]), scores[17:])
    one.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.card["preprocessing"]["size"] == list(shape)
    assert (loaded.score(images) == scores).all()
    if one.model.method.explains:
        maps = loaded.explain(images[:3])
        assert maps.shape == (3, *shape)
        assert np.isfinite(maps).all()


@pytest.mark.parametrize("name", [name for name in method_names() if not find(name).rectangles])
def test_a_method_of_squares_refuses_a_rectangle(name):
    with pytest.raises(SettingError, match=rf"size is 36x52, and the method {name} takes squares alone; .*\bpca\b"):
        detector(name, size=(36, 52))
    assert detector(name, size=(36, 36)).options.size == (36, 36)


@every_method
def test_every_trained_parameter_has_an_optimizer(name):
    method = find(name)(build(settings_of(name), small(name)), (3, 28, 28))
    phases = method.phases()
    assert len({phase.name for phase in phases}) == len(phases)
    own = {id(parameter) for parameter in method.parameters()}
    optimised = set()
    for phase in phases:
        assert phase.epochs >= 1
        groups = loop.groups(method.optimizers(phase.name))
        parameters = [id(parameter) for group in groups for parameter in group["params"]]
        assert parameters, f"nothing is trained in phase {phase.name}"
        assert len(set(parameters)) == len(parameters), "two optimisers share a parameter"
        optimised |= set(parameters)
    assert optimised <= own, "a parameter that is not registered is not saved"
    if phases:
        forgotten = [key for key, p in method.named_parameters() if p.requires_grad and id(p) not in optimised]
        assert not forgotten


@every_method
def test_training_changes_the_weights(name):
    method = fitted(name).model.method
    if not method.phases():
        pytest.skip("nothing to train")
    with seeded(0, INITIALISE):
        new = find(name)(fitted(name).options.settings, method.shape)
    assert any(not torch.equal(a, b) for a, b in zip(method.parameters(), new.parameters(), strict=True))


@every_method
def test_explain_gives_a_map_for_each_image_or_says_that_it_cannot(name):
    method = fitted(name).model.method
    assert method.explains == (type(method).explain is not Method.explain)
    assert method.has_codes == (type(method).code is not Method.code)
    if not method.explains:
        with pytest.raises(SettingError, match=f"{name} cannot say where"):
            fitted(name).explain(OTHERS)
        return
    maps = fitted(name).explain(OTHERS)
    assert maps.shape == OTHERS.shape
    assert np.isfinite(maps).all()


LEARNT_QUICKLY = {"base", "knn", "ocsvm", "pca", "pretrained", "random-encoder", "surprisal", "vae"}
MARKED = [pytest.param(one, marks=() if one in LEARNT_QUICKLY else pytest.mark.slow) for one in method_names()]


@pytest.mark.parametrize("name", MARKED)
def test_learns(name):
    if not find(name)(build(settings_of(name), small(name)), (3, 28, 28)).phases():
        # A control: nothing is trained, but it has seen the normal images and must have some use for them.
        scores = detector(name, false_alarm_rate=None).fit(TASK.train_images).score(TASK.test_images)
        assert auroc(scores, TASK.test_labels.look()) > 0.75
    else:
        before, after = (auroc(scores, looked_at(scores)) for scores in before_and_after(name, epochs=12))
        # Of the pairs in the wrong order, two in five or more are put right.
        share, least = (0.8, 0.75) if name in LEARNS_SLOWLY else (0.6, 0.85)
        assert 1 - after < share * (1 - before)
        assert after > least


def looked_at(scores: np.ndarray) -> np.ndarray:
    return TASK.test_labels.look()[: len(scores)]


def before_and_after(name: str, epochs: int) -> list[np.ndarray]:
    """Scores of the method with its first weights and with trained ones; both have seen the normal images."""
    settings = small(name) | LEARNS_AT.get(name, {})
    images = TASK.test_images[: 200 if name in SLOW_SCORES else None]
    fits = [
        detector(name, settings=settings, epochs=count, false_alarm_rate=None).fit(
            TASK.train_images, allow_collapse=True
        )
        for count in (0, epochs)
    ]
    return [one.score(images) for one in fits]


@every_method
def test_a_run_goes_on_from_its_last_checkpoint_to_the_same_bits(name, tmp_path):
    """From the end of its only phase at least: the state is accepted as one of this training."""
    if not find(name)(settings_of(name)(), (3, 32, 32)).phases():
        pytest.skip("it has no training")
    one = detector(name, false_alarm_rate=None)
    whole = one.fit(IMAGES, allow_collapse=True, checkpoint=tmp_path / "c").model.method.state_dict()
    assert (tmp_path / "c").exists()
    again = one.fit(IMAGES, allow_collapse=True, checkpoint=tmp_path / "c", resume=True).model.method.state_dict()
    assert all(torch.equal(value, whole[key]) for key, value in again.items())
