"""What all tests share: the same arithmetic on every processor."""

import pytest

from normscope.training import device


@pytest.fixture(autouse=True, scope="session")
def full_precision():
    """A processor that multiplies bfloat16 in hardware would train in it, and learn a little differently."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "gains_from_bfloat16", lambda device: False)
        yield
