import signal
import threading

import pytest

from normscope.training.interrupt import SIGNALS, Terminated, deferred


@pytest.fixture(autouse=True)
def _handlers_as_before():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_waits(number):
    with deferred() as stop:
        assert not stop.requested
        signal.raise_signal(number)
        assert stop.requested


@pytest.mark.parametrize("number", SIGNALS)
def test_the_second_signal_does_not(number):
    def impatient():
        with deferred():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(number)
            pytest.fail("the second signal was ignored")

    with pytest.raises(KeyboardInterrupt):
        impatient()


def mine(number, frame):
    raise LookupError


@pytest.mark.parametrize("number", SIGNALS)
def test_handlers_are_restored_however_it_ends(number):
    signal.signal(number, mine)
    with deferred():
        assert signal.getsignal(number) is not mine
    assert signal.getsignal(number) is mine

    def fail():
        with deferred():
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    with pytest.raises(LookupError):
        signal.raise_signal(number)


def test_one_stop_does_not_leak_into_the_next():
    with deferred():
        signal.raise_signal(signal.SIGINT)
    with deferred() as stop:
        assert not stop.requested


def test_off_the_main_thread_nothing_is_touched():
    found = []

    def work():
        with deferred() as stop:
            found.append((stop.requested, [signal.getsignal(number) for number in SIGNALS]))

    before = [signal.getsignal(number) for number in SIGNALS]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, before)]


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_what_is_raised_tells_the_signals_apart(number, kind):
    with deferred() as stop:
        signal.raise_signal(number)
    with pytest.raises(KeyboardInterrupt) as raised:
        stop.raise_if_requested()
    assert type(raised.value) is kind
