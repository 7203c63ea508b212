from math import inf, nan

import pytest

from normscope.errors import TrainingError
from normscope.training.health import LEAST_INFORMATION, LEAST_SPREAD, TOO_MUCH_ENTROPY, Health

SIGNS = ("information", "spread")
ALIVE = {"loss": 3.0, "information": 1.0, "spread": 0.5, "beta": 1.0}


def after(*records):
    health = Health()
    for step, record in enumerate(records):
        health.watch(record, step, [1, 2])
    return health


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_value_that_is_not_finite_is_named_with_its_step_and_images(value):
    with pytest.raises(TrainingError) as error:
        Health().watch({"loss": 1.0, "beta": 1.0, "entropy": value}, 17, [4, 8, 15, 16, 23, 42])
    assert str(error.value) == (
        f"entropy became {value} at step 17 (batch of images 4, 8, 15, 16, 23, …); "
        "try a smaller learning_rate or a smaller beta"
    )


def test_a_small_batch_is_named_whole():
    with pytest.raises(TrainingError, match=r"\(batch of images 4, 8, 15, 16, 23\)"):
        Health().watch({"loss": nan}, 0, [4, 8, 15, 16, 23])


def test_codes_that_are_all_the_same_are_a_collapse():
    verdict = after({**ALIVE, "spread": LEAST_SPREAD / 2}).verdict(SIGNS)
    assert verdict == f"collapsed: the codes of all images are the same (spread 5.0e-04); {TOO_MUCH_ENTROPY}"


def test_codes_that_say_nothing_are_a_collapse():
    verdict = after({**ALIVE, "information": LEAST_INFORMATION / 2}).verdict(SIGNS)
    assert verdict == f"collapsed: the codes say nothing of the image (information 0.010 nats); {TOO_MUCH_ENTROPY}"
    assert after({**ALIVE, "information": -4.0}).verdict(SIGNS).startswith("collapsed")


def test_the_advice_names_what_can_be_set():
    assert all(setting in TOO_MUCH_ENTROPY for setting in ("beta=auto", "beta_ramp=0.5", "smaller beta"))


def test_a_method_without_beta_is_not_told_to_change_it():
    assert after({"loss": 1.0, "spread": 0.0}).verdict(SIGNS).endswith("try a smaller learning_rate or fewer epochs")
    with pytest.raises(TrainingError, match=r"try a smaller learning_rate$"):
        Health().watch({"loss": nan}, 0, [1])


def test_what_is_alive_or_not_recorded_is_ok():
    assert after(ALIVE).verdict(SIGNS) == "ok"
    assert after({"loss": 0.0}).verdict(SIGNS) == "ok"
    assert Health().verdict(SIGNS) == "ok"


def test_only_the_signs_that_a_method_names_count():
    dead = {**ALIVE, "information": 0.0}
    assert after(dead).verdict(("spread",)) == "ok"
    assert after({**dead, "spread": 0.0}).verdict(("spread",)).startswith("collapsed: the codes of all images are")


def test_the_verdict_is_on_what_lasts_and_not_on_one_step():
    dead = {**ALIVE, "information": 0.0, "spread": 0.0}
    assert after(*[ALIVE] * 50, dead).verdict(SIGNS) == "ok"
    assert after(ALIVE, *[dead] * 200).verdict(SIGNS).startswith("collapsed")
    assert after(*[dead] * 50, *[ALIVE] * 10).verdict(SIGNS) == "ok"


def test_averages_begin_at_the_first_value_and_can_be_taken_up_again():
    records = [{"information": float(value)} for value in (5, 2, 7, 1)]
    whole, part = after(*records), after(*records[:2])
    assert after(records[0]).averages == {"information": 5.0}
    resumed = Health(part.averages)
    for record in records[2:]:
        resumed.watch(record, 0, [])
    assert resumed.averages == whole.averages
    assert part.averages == after(*records[:2]).averages
