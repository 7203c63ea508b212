"""The limits that the other tests rely on: they would notice."""

import resource
import subprocess
import sys

import pytest

BURN = "import time\nwhile time.process_time() < 0.4: pass"
SWELL = "x = bytearray(150 * 2**20)"


def child(script):
    subprocess.run([sys.executable, "-S", "-c", script], check=True)


@pytest.mark.parametrize("seconds", [0.2, 5.0])
def test_the_time_of_a_child_counts(within, seconds):
    def inside():
        with within(seconds):
            child(BURN)

    if seconds < 1:
        with pytest.raises(Exception, match="too much processor time"):
            inside()
    else:
        inside()


@pytest.mark.slow
def test_the_memory_of_a_child_counts(within):
    with within(5, 400):
        child(SWELL)
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    with pytest.raises(AssertionError), within(60, 100):  # filling some gigabytes takes a while
        child(SWELL.replace("150", str(largest + 300)))  # more than any child before it
