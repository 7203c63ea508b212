import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from normscope import Detector
from normscope.datasets import digits
from normscope.sklearn import AnomalyDetector

TASK = digits.load().task(0)
X, NEW = TASK.train_images, TASK.test_images


def knn(**parameters):
    return AnomalyDetector("knn", false_alarm_rate=0.05, **parameters)


def test_signs_are_scikit_learns():
    fitted = knn().fit(X)
    detector = Detector("knn", false_alarm_rate=0.05).fit(X)
    assert (fitted.score_samples(NEW) == -detector.score(NEW)).all()
    assert (fitted.predict(NEW) == np.where(detector.predict(NEW), -1, 1)).all()
    assert ((fitted.decision_function(NEW) < 0) == (fitted.predict(NEW) == -1)).all()
    assert set(fitted.predict(NEW)) == {-1, 1}


def test_clone_keeps_the_parameters_and_forgets_the_fit():
    original = knn(settings={"k": 3}, seed=7).fit(X)
    copy = clone(original)
    assert copy.get_params() == original.get_params()
    with pytest.raises(NotFittedError):
        copy.score_samples(NEW)
    assert (copy.fit(X).score_samples(NEW) == original.score_samples(NEW)).all()


def test_size_may_be_height_and_width():
    original = knn(size=(30, 40))
    assert clone(original).get_params()["size"] == (30, 40)
    assert original.fit(X).detector_.model.size == (30, 40)


def test_a_pipeline_of_tables():
    table = X.reshape(len(X), -1).astype(float)
    to_bytes = FunctionTransformer(lambda values: values.astype(np.uint8))
    pipeline = make_pipeline(to_bytes, knn(image_shape=(8, 8))).fit(table)
    assert (pipeline.score_samples(NEW.reshape(len(NEW), -1)) == knn().fit(X).score_samples(NEW)).all()
    assert pipeline.fit_predict(table).shape == (len(X),)
    assert pipeline.set_params(anomalydetector__settings={"k": 2}).fit(table).predict(table[:2]).shape == (2,)
