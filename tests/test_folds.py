import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from normscope import folds
from normscope.calibration import Calibration
from normscope.folds import drawn, out_of_fold
from normscope.scoring.combination import combined
from normscope.scoring.held_out import held_out, random_folds
from normscope.scoring.surprisal import fit_gaussian, gaussian
from normscope.scoring.survival import fit_survival, survival
from normscope.training import loop
from normscope.training.encoded import Encoded
from normscope.training.method import Method, part
from normscope.training.observer import Observer


@dataclass(frozen=True)
class Settings:
    pass


class Surprisal(Method):
    """Of the pixels under a Gaussian: with fewer images than pixels it fits them far better than any other."""

    def finish(self, batches):
        return fit_gaussian(torch.cat(list(batches)).flatten(1))

    def score(self, images, reference):
        return gaussian(images.flatten(1), reference)


class Combined(Surprisal):
    """Of two halves of the pixels, each on the scale of its held-out scores, as `pretrained` combines its parts."""

    holds_out = True

    def finish_held_out(self, batches):
        halves = torch.cat(list(batches)).flatten(1).chunk(2, 1)
        fold = random_folds(len(halves[0]))
        parts = torch.stack([held_out(x, fold, fit_gaussian, gaussian) for x in halves], 1)
        reference = {f"{i}.{name}": value for i, x in enumerate(halves) for name, value in fit_gaussian(x).items()}
        reference |= {f"survival.{name}": value for name, value in fit_survival(parts).items()}
        nats = held_out(parts, fold, fit_survival, survival)
        return reference, combined(nats, torch.tensor([0.3, 0.7]), reference["survival.known"])

    def score(self, images, reference):
        halves = images.flatten(1).chunk(2, 1)
        parts = torch.stack([gaussian(x, part(reference, str(i))) for i, x in enumerate(halves)], 1)
        nats = survival(parts, part(reference, "survival"))
        return combined(nats, torch.tensor([0.3, 0.7]), reference["survival.known"])


class Nearest(Method):
    """Distance to the nearest normal image."""

    def finish(self, batches):
        return {"x": torch.cat(list(batches)).flatten(1)}

    def score(self, images, reference):
        return torch.cdist(images.flatten(1), reference["x"]).amin(1)


def noise(n, side, rng):
    return np.clip(rng.normal(128, 40, (n, 3, side, side)), 0, 255).astype(np.uint8)


def encoded(method, images):
    return Encoded(method, images, torch.device("cpu"), 128)


@pytest.mark.parametrize(("n", "sizes"), [(8, {1}), (20, {1, 2}), (100, {10}), (400, {100})])
def test_folds_are_of_equal_sizes_and_random(n, sizes):
    first = drawn(n, np.random.default_rng(0))
    assert set(np.bincount(first)) == sizes
    assert (first != drawn(n, np.random.default_rng(1))).any()


def test_no_image_is_scored_by_a_reference_fitted_to_it():
    images = noise(30, 4, np.random.default_rng(0))
    method = Nearest(Settings(), (3, 4, 4))
    own = drawn(30, np.random.default_rng(0))
    scores = out_of_fold(method, encoded(method, images), own, 0, "calibrating")
    x = torch.from_numpy(images).flatten(1) / 127.5 - 1
    distances = torch.cdist(x, x) + torch.where(torch.tensor(own)[:, None] == torch.tensor(own), torch.inf, 0)
    assert scores == pytest.approx(distances.amin(1).double().numpy(), rel=1e-4)


def test_the_observer_hears_of_every_fold_and_of_the_reference_that_follows():
    told = []

    class Kept(Observer):
        def parts(self, doing, done, of) -> None:
            told.append((doing, done, of))

    method = Nearest(Settings(), (3, 4, 4))
    images = replace(encoded(method, noise(9, 4, np.random.default_rng(0))), observer=Kept())
    out_of_fold(method, images, np.arange(9) % 3, 0, "calibrating")
    assert told == [("calibrating", done, 4) for done in range(4)]


def false_alarms(kind, n, side, rate, draws):
    """Shares of 200 fresh normal images that are flagged, for each draw of n normal images."""
    rng, method = np.random.default_rng(n), kind(Settings(), (3, side, side))
    for _ in range(draws):
        normal, fresh = encoded(method, noise(n, side, rng)), encoded(method, noise(200, side, rng))
        reference, scores = folds.held_out(method, normal, drawn(n, rng), 0, "calibrating")
        reference = reference or loop.finish(method, normal, 0)
        alarms = [method.score(images, reference) for images in fresh]
        yield Calibration(scores, rate, "cross").anomalous(torch.cat(alarms).double().numpy()).mean()


@pytest.mark.parametrize("kind", [Surprisal, Combined, Nearest])
@pytest.mark.parametrize(  # of 12, 108 and 48 dimensions
    ("n", "side"), [pytest.param(79, 2, marks=pytest.mark.slow), pytest.param(39, 6, marks=pytest.mark.slow), (139, 4)]
)
def test_out_of_fold_scores_keep_the_false_alarm_rate_of_a_reference_fitted_to_all(kind, n, side):
    """No theorem, so measured: 40 draws of everything, thus 300 to 680 references."""
    rate, draws = 0.1, 40
    rates = list(false_alarms(kind, n, side, rate, draws))
    allowed = rate * (n + 1)  # a whole number: given the scores, the rate follows Beta(allowed, n + 1 - allowed)
    deviation = math.sqrt(rate * (1 - rate) / (n + 2) + rate * (1 - rate) / 200)
    assert allowed == pytest.approx(round(allowed))
    assert 0.4 * rate < np.mean(rates) < rate + 3 * deviation / math.sqrt(draws)


def test_images_that_a_reference_was_not_fitted_to_are_scored_by_it():
    rng = np.random.default_rng(0)
    method, kept = Combined(Settings(), (3, 2, 2)), np.arange(60) % 3 != 0
    images = encoded(method, noise(60, 2, rng))
    reference, scores = folds.held_out(method, images, np.zeros(60, int), 0, "looking for outliers", kept)
    rest = images.subset(np.flatnonzero(~kept))
    expected = torch.cat([method.score(batch, reference) for batch in rest])
    assert scores[~kept] == pytest.approx(expected.double().numpy())
    assert scores[kept] != pytest.approx(torch.cat([method.score(x, reference) for x in images])[kept].numpy())
