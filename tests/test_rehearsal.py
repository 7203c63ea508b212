import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from normscope.fitting import fit
from normscope.options import checked
from normscope.rehearsal import Encoder, Rehearsed, forecast, run_seconds
from normscope.training.encoded import MOST_BYTES


def images(n, side=28, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side), dtype=np.uint8)


def encoder(nbytes, seconds, of, asked):
    return Encoder(torch.zeros((1, nbytes), dtype=torch.uint8), seconds, 0.0, asked, set(range(of)))


def test_seconds_of_a_run_by_hand():
    assert run_seconds(Rehearsed(75, 2.0, 0.5, []), 100, 4, 4) == 4 * 2.5 + 2
    every = encoder(1000, 0.1, 75, 100)  # all of the fold: all images, once
    assert run_seconds(Rehearsed(75, 2.0, 0.5, [every]), 100, 4, 4) == pytest.approx(12 + 100 * 0.1)
    half = encoder(1000, 0.1, 15, 15)  # a fifth of the fold; four folds draw 1 − 0.8⁴ of all
    assert run_seconds(Rehearsed(75, 2.0, 0.5, [half]), 100, 4, 4) == pytest.approx(12 + 59.04 * 0.1)


def test_encodings_that_do_not_fit_are_made_anew():
    large = encoder(1000, 0.1, 75, 150)
    n = 2 * MOST_BYTES // 1000  # twice as many as can be kept
    one = Rehearsed(75, 0.0, 0.0, [large])
    assert one.kept(n, 4) == MOST_BYTES
    assert run_seconds(one, n, 4, 4) == pytest.approx(0.1 * (n / 2 + 150 / 2 * 5), rel=1e-3)
    assert one.kept(100, 4) == 100_000


def test_what_a_method_that_trains_would_do():
    options = checked("surprisal", settings={"width": 16, "batch_size": 8}, epochs=3, false_alarm_rate=0.1)
    found = forecast(images(40), options)
    assert (found.images, found.trained_on, found.calibrated_with, found.folds) == (40, 30, 10, 0)
    assert found.steps == fit(images(40), options, allow_collapse=True).model.card["training"]["steps"]
    assert found.training > 0
    assert found.seconds == found.reading + found.training + found.finishing


def test_a_budget_is_an_upper_limit():
    settings = {"width": 16, "batch_size": 8}
    found = forecast(images(40), checked("surprisal", settings=settings, budget=0.5, epochs=100_000))
    assert found.training <= 1.0  # a step at least, and a slow machine may take long for one
    nothing = forecast(images(40), checked("surprisal", settings=settings, epochs=0))
    assert (nothing.training, nothing.steps) == (0, 0)


def test_what_a_method_that_trains_nothing_would_do():
    found = forecast(images(40), checked("pca"))
    assert (found.trained_on, found.calibrated_with, found.folds, found.steps, found.training) == (40, 40, 16, 0, 0)
    assert found.finishing > 0


def test_a_rehearsal_leaves_the_generator_alone():
    before = torch.get_rng_state()
    forecast(images(40), checked("random-encoder"))
    forecast(images(20), checked("surprisal", settings={"width": 16}, epochs=1))
    assert (torch.get_rng_state() == before).all()


# Processor time in place of the clock: the test must not depend on who else works on the machine.
MEASURE = """
import json, resource, sys, time
time.perf_counter = time.process_time
import numpy as np
from normscope.options import checked
what, method, n, side, epochs = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
rng = np.random.default_rng(0)
images = np.clip(120 + 60 * np.sin(np.arange(side) / 3) + rng.normal(0, 12, (n, side, side)), 0, 255).astype(np.uint8)
options = checked(method, epochs=epochs or None, budget=1e6)
if what == "forecast":
    from normscope.rehearsal import forecast
    found = forecast(images, options)
    print(json.dumps([found.seconds, found.memory]))
else:
    from normscope.fitting import fit
    seconds = fit(images, options, allow_collapse=True).seconds
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


def measured(what, *case):
    command = [sys.executable, "-c", MEASURE, what, *map(str, case)]
    done = subprocess.run(command, capture_output=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return np.array(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units there")
@pytest.mark.parametrize(
    "case",
    [("pretrained", 200, 96, 0), ("surprisal", 200, 32, 12), ("ocsvm", 600, 28, 0), ("vae", 300, 28, 12)],
    ids=str,
)
def test_time_and_memory_are_right_within_30_per_cent(case):
    began = time.monotonic()
    ratio = measured("forecast", *case) / measured("fit", *case)
    assert (np.abs(np.log(ratio)) < np.log(1.3)).all(), (ratio, time.monotonic() - began)
