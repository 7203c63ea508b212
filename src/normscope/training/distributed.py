"""Several processes, started by torchrun, that train one method together; each of these functions is trivial in one.

All ranks make the same steps: they draw the same batch and the same views, and share the work inside `data_parallel`.
What is outside is computed by everyone, so it is the same everywhere and needs no communication.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ReduceOp

from normscope.errors import RankLostError

Value = TypeVar("Value")
STEPPING: ContextVar[bool] = ContextVar("STEPPING", default=False)


def world() -> int:
    """How many processes train together; 1 unless somebody has made a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is. Rank 0 alone writes files and prints."""
    return dist.get_rank() if world() > 1 else 0


@contextmanager
def together() -> Iterator[None]:
    """A training step, which all ranks make together; outside of one, nothing that a method computes is shared."""
    before = STEPPING.set(world() > 1)
    try:
        yield
    finally:
        STEPPING.reset(before)


@contextmanager
def process_group() -> Iterator[None]:
    """The processes that torchrun started, if it did, as a group. Nobody leaves before rank 0 has done its work."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or world() > 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    with loss_of_a_rank():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
        with loss_of_a_rank():
            dist.barrier()
    finally:
        dist.destroy_process_group()


@contextmanager
def loss_of_a_rank() -> Iterator[None]:
    """Around what all ranks do together: its error is that another one has gone."""
    try:
        yield
    except RuntimeError as error:
        raise RankLostError(
            "another process of this fit has ended; the same command with --resume goes on from the last checkpoint"
        ) from error


def from_rank_0(value: Value) -> Value:
    """What rank 0 gives, at every rank."""
    if world() == 1:
        return value
    given = [value]
    with loss_of_a_rank():
        dist.broadcast_object_list(given)
    return given[0]


def anywhere(number: int | None) -> int | None:
    """The highest that any rank has; None if none has any."""
    if world() == 1:
        return number
    highest = torch.tensor(number or 0)
    with loss_of_a_rank():
        dist.all_reduce(highest, ReduceOp.MAX)
    return int(highest) or None


def average_gradients(weights: Iterable[Tensor]) -> None:
    """The mean over ranks, in one message; see `data_parallel` on why it is the gradient of one process."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    if not STEPPING.get() or not gradients:
        return
    flat = torch.cat([gradient.flatten() for gradient in gradients]) / world()
    with loss_of_a_rank():
        dist.all_reduce(flat)
    for gradient, mean in zip(gradients, flat.split([one.numel() for one in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def own_part(rows: int) -> slice:
    """Contiguous, and as many rows as other ranks have or one more."""
    return slice(rows * rank() // world(), rows * (rank() + 1) // world())


def all_parts(part: Tensor, rows: int) -> Tensor:
    """The parts of all ranks, one below the other: [rows, …]. Parts travel as long as the longest is."""
    most = -(-rows // world())
    padded = part.new_zeros(most, *part.shape[1:])
    padded[: len(part)] = part
    every = [torch.empty_like(padded) for _ in range(world())]
    with loss_of_a_rank():
        dist.all_gather(every, padded)
    ends = [rows * number // world() for number in range(world() + 1)]
    return torch.cat([one[: end - start] for one, start, end in zip(every, ends, ends[1:], strict=False)])


def total(part: Tensor) -> Tensor:
    """The sum over ranks."""
    result = part.detach().clone(memory_format=torch.contiguous_format)
    with loss_of_a_rank():
        dist.all_reduce(result)
    return result
