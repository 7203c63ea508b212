import pytest
import torch


@pytest.fixture(autouse=True)
def same_weights_every_run():
    """Whichever tests ran before."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
