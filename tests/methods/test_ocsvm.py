import numpy as np
import pytest
import torch
from sklearn.svm import OneClassSVM

from normscope import Detector
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods import ocsvm
from normscope.methods.ocsvm import OCSVM, Settings

SHAPE = (3, 4, 4)


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def fitted(normal, **settings):
    """The method and what it fits to these images."""
    method = OCSVM(Settings(**settings), SHAPE)
    return method, method.finish(normal.split(32))


@pytest.mark.parametrize(("nu", "gamma"), [(0.1, "scale"), (0.5, 0.05)])
def test_the_score_is_scikit_learns_decision_turned(nu, gamma):
    normal, x = images(100), images(20, seed=1)
    theirs = OneClassSVM(nu=nu, gamma=gamma).fit(normal.flatten(1).double().numpy())
    expected = -theirs.decision_function(x.flatten(1).double().numpy())
    method, reference = fitted(normal, nu=nu, gamma=gamma)
    assert method.score(x, reference).numpy() == pytest.approx(expected, abs=1e-3 * np.abs(expected).max())


def test_the_default_width_is_the_diameter_of_the_training_images():
    normal = images(50)
    widest = torch.pdist(normal.flatten(1)).max().item()
    assert fitted(normal)[1]["gamma"].item() == pytest.approx(1 / widest**2, rel=1e-4)


@pytest.mark.parametrize("gamma", ["diameter", "scale"])
def test_images_that_do_not_differ_have_a_width_of_one(gamma):
    """As a fold may have none but copies, even where not all images are the same."""
    normal, x = torch.zeros(10, *SHAPE), images(5)
    method, reference = fitted(normal, gamma=gamma)
    assert reference["gamma"].item() == 1
    assert method.score(x, reference).isfinite().all()
    assert (method.score(x, reference) > method.score(normal[:1], reference)).all()


@pytest.mark.parametrize("nu", [0.1, 0.4])
def test_nu_is_about_the_share_of_training_images_outside(nu):
    normal = images(200)
    method, reference = fitted(normal, nu=nu)
    scores = method.score(normal, reference)
    assert (scores > 1e-3 * scores.abs().max()).float().mean() <= nu + 0.01
    assert len(reference["support"]) >= nu * 200


def test_of_many_images_some_are_drawn(monkeypatch):
    monkeypatch.setattr(ocsvm, "MOST_IMAGES", 12)
    _, reference = fitted(images(100), nu=0.99)  # so much that every image is a support vector
    assert len(reference["support"]) == 12


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nu": 0.0}, r"nu is 0\.0; give a share"),
        ({"nu": 1.0}, r"nu is 1\.0"),
        ({"gamma": 0.0}, r"gamma is 0\.0; give"),
    ],
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        Detector("ocsvm", settings=wrong).fit(digits.load().train_images[:20])
