"""What one process and several record when they train methods: `ranks.py FOLDER COUNT,… SIZE METHOD…`.

Forks them, so that modules are imported once. In float64, so that what is left between one process and several is no
rounding that an optimiser may magnify: Adam and Muon make a step of full length out of any gradient, however small.
"""

import json
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from normscope.training import data_parallel as sharing
from normscope.training import device, loop
from normscope.training.batches import Pixels
from normscope.training.distributed import process_group, rank
from normscope.training.method import Batch, Method, Phase
from normscope.training.observer import Observer
from normscope.training.steps import update

STEPS = 20


class Toy(Method):
    """What methods do: batch norm, dropout, a network on another's output, weights outside, a gradient's gradient."""

    def __init__(self):
        super().__init__(None, (3, 8, 8))
        self.first = torch.nn.Sequential(
            torch.nn.Conv2d(3, 6, 3), torch.nn.BatchNorm2d(6), torch.nn.Tanh(), torch.nn.Dropout(0.3)
        )
        self.second = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6 * 36, 5), torch.nn.BatchNorm1d(5))
        self.scale = torch.nn.Parameter(torch.ones(5))

    def phases(self):
        return [Phase("train", 1, 7, least_steps=STEPS)]

    def optimizers(self, phase):
        return {"all": torch.optim.Adam(self.parameters(), 0.01)}

    def step(self, batch: Batch, optimizers, progress):
        x = (batch.normal + 0.1 * torch.randn_like(batch.normal)).requires_grad_()
        maps = sharing.data_parallel(self.first, x)
        codes = sharing.data_parallel(self.second, maps) * self.scale
        (slope,) = torch.autograd.grad(codes.square().sum(), x, create_graph=True)
        alike = codes @ codes.T
        contrastive = (alike.logsumexp(1) - alike.diagonal()).mean()
        loss = contrastive + slope.square().mean() + maps.abs().mean()
        update(optimizers["all"], loss)
        return {"loss": loss, "slope": slope.norm()}


class Kept(Observer):
    def __init__(self):
        self.records = []

    def step(self, progress):
        self.records.append(dict(progress.record))


def as_double(pixels: np.ndarray, device: torch.device) -> torch.Tensor:
    x = torch.from_numpy(np.ascontiguousarray(pixels)).double()
    return (x / 127.5 - 1).contiguous(memory_format=torch.channels_last)


def images(side: int) -> Pixels:
    """Bars that differ in place and brightness, and noise: 31 of them, which no number of processes divides."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 60, (31, 3, side, side))
    for number, image in enumerate(x):
        image[:, :, (number * 3) % (side - 4) :][:, :, :4] += 100 + 3 * number
    return x.astype(np.uint8)


def make(name: str, side: int) -> Method:
    torch.manual_seed(0)
    if name == "toy":
        return Toy().double()
    from normscope.methods import find, settings_of
    from normscope.settings import build

    known = settings_of(name).__dataclass_fields__
    small = {"width": 16, "batch_size": 8, "latent": 8, "transforms": 4, "mining_from": 0.5, "code": 16}
    settings = {key: value for key, value in small.items() if key in known}
    return find(name)(build(settings_of(name), settings), (3, side, side)).double()


def records(name: str, side: int) -> dict[str, object]:
    method, kept = make(name, side), Kept()
    epochs = -(-STEPS // (31 // method.phases()[0].batch_size))
    loop.train(method, images(side), loop.Plan(epochs=epochs), kept)
    return {"records": kept.records, "state": [float(one.double().sum()) for one in method.state_dict().values()]}


def train_all(out: Path, side: int, names: Sequence[str]) -> None:
    with process_group():
        found = {}
        for name in names:
            found[name] = records(name, side)
            if rank() == 0:
                out.write_text(json.dumps(found))


def together(count: int, out: Path, side: int, names: Sequence[str]) -> list[int]:
    """Exit codes of so many processes, with the variables that torchrun sets."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    children = []
    for number in range(count):
        os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number)}
        child = os.fork()
        if child == 0:
            try:
                train_all(out, side, names)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def main(folder: str, counts: str, side: str, *names: str) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    loop.to_float, device.gains_from_bfloat16 = as_double, lambda _: False
    for count in map(int, counts.split(",")):
        assert not any(together(count, Path(folder) / f"{count}.json", int(side), names))


if __name__ == "__main__":
    main(*sys.argv[1:])
