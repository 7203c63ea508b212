import numpy as np
import pytest
import torch
from sklearn import decomposition

from normscope import Detector
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods import pca
from normscope.methods.pca import PCA, Settings

SHAPE = (3, 4, 4)


def images(n, seed=0):
    """Correlated pixels, so that components differ in variance."""
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(48, 48, generator=torch.Generator().manual_seed(9)) / 48
    return (torch.rand(n, 48, generator=generator) @ mix).view(n, *SHAPE).clamp(-1, 1)


def fitted(normal, variance=0.95):
    """The method and what it fits to these images."""
    method = PCA(Settings(variance=variance), SHAPE)
    return method, method.finish(normal.split(10))


@pytest.mark.parametrize(("n", "variance"), [(200, 0.5), (30, 0.95)])  # more and fewer images than pixels
def test_it_is_scikit_learns(n, variance):
    normal, x = images(n), images(7, seed=1)
    method, reference = fitted(normal, variance)
    theirs = decomposition.PCA(variance, svd_solver="full").fit(normal.flatten(1).double().numpy())
    pixels = x.flatten(1).double().numpy()
    restored = theirs.inverse_transform(theirs.transform(pixels))
    assert len(reference["components"]) == theirs.n_components_
    assert method.score(x, reference).numpy() == pytest.approx(((pixels - restored) ** 2).mean(1), rel=1e-3)
    own = reference["components"].numpy() @ theirs.components_.T  # the same axes, of either sign
    assert np.abs(own) == pytest.approx(np.eye(theirs.n_components_), abs=1e-3)


def test_there_are_at_most_as_many_components_as_images_less_one():
    normal = images(5)
    method, reference = fitted(normal, variance=1.0)
    assert reference["components"].shape == (4, 48)
    assert method.score(normal, reference).max() < 1e-9
    assert method.score(images(5, seed=1), reference).min() > 1e-6


def test_what_never_varies_is_no_component():
    normal = torch.cat([images(20)[:, :1].expand(-1, 2, -1, -1), torch.zeros(20, 1, 4, 4)], 1)
    assert len(fitted(normal, variance=1.0)[1]["components"]) == 16


def test_of_many_images_some_are_drawn(monkeypatch):
    monkeypatch.setattr(pca, "MOST_IMAGES", 12)
    assert len(fitted(images(100), variance=1.0)[1]["components"]) == 11


@pytest.mark.parametrize("variance", [0.0, 1.5])
def test_what_is_no_share_is_refused(variance):
    with pytest.raises(SettingError, match=f"variance is {variance}; give a share above 0 and up to 1"):
        Detector("pca", settings={"variance": variance}).fit(digits.load().train_images[:20])


def test_where_the_image_is_odd():
    task = digits.load().task(3)
    one = Detector("pca", settings={"variance": 0.8}, false_alarm_rate=None).fit(task.train_images)
    spoilt = task.test_images[:20].copy()
    spoilt[:, :3, :2] = 255
    heat = one.explain(spoilt)
    assert np.median(heat[:, :3, :2].mean((1, 2)) / heat.mean((1, 2))) > 2
