"""How data sets and tasks are called in tables and figures."""

DATASET_NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}


def title(dataset: str, normal: int) -> str:
    """A task: the data set and the normal class."""
    return f"{DATASET_NAMES.get(dataset, dataset)} {normal}"
