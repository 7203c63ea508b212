import pytest

from normscope.errors import SettingError
from normscope.training.budget import WARM_UP, affordable_steps, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("0.5s", 0.5), (" 2 M ", 120), ("1.5h", 5400)],
)
def test_a_budget_is_read_in_seconds_minutes_or_hours(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "m", "5 minutes", "-5m", "0", "1h30m", "1e3", "nan", ".5m"])
def test_what_is_no_budget_is_refused_with_an_example(text):
    with pytest.raises(SettingError, match="is not a budget; write for instance 90s, 5m or 1h") as error:
        seconds(text)
    assert repr(text) in str(error.value)


def test_steps_are_afforded_by_the_median_of_those_after_the_warm_up():
    slow_start = [50.0] * WARM_UP
    assert affordable_steps(10.0, [*slow_start, 0.5, 0.5, 0.5, 0.5, 9.0]) == 20
    assert affordable_steps(10.0, [*slow_start, 0.5, 0.1, 0.2, 0.4, 0.25]) == 40
    assert affordable_steps(0.99, [*slow_start, 1.0, 1.0, 1.0]) == 0
    assert affordable_steps(2.99, [*slow_start, 1.0, 1.0, 1.0]) == 2


def test_no_time_left_affords_no_steps():
    assert affordable_steps(-3.0, [1.0] * (WARM_UP + 3)) == 0
