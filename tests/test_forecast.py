import pytest

from normscope.forecast import Trial, extrapolated


def test_what_a_trial_takes_whatever_the_images_is_not_multiplied():
    found = extrapolated(Trial(16, finish=1.0, score=0.16), Trial(32, finish=1.1, score=0.32), 176)
    assert found.finish == pytest.approx(2.0)
    assert found.score == pytest.approx(1.76)


def test_more_images_never_take_less():
    assert extrapolated(Trial(16, 1.0, 1.0), Trial(32, 0.5, 0.9), 1000)[1:] == (1.0, 1.0)


def test_of_so_few_images_that_both_trials_have_all():
    assert extrapolated(Trial(8, 1.0, 1.0), Trial(8, 1.2, 1.0), 8)[1:] == (1.0, 1.0)
