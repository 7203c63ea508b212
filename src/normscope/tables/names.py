"""Data sets and tasks as they are printed."""

PROPER = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}


def title(dataset: str, normal: int) -> str:
    """A task: the data set and the normal class."""
    return f"{PROPER.get(dataset, dataset)} {normal}"
