"""One network, its batch shared out among processes; what comes back, and every gradient, is that of one process.

Inside, a rank has some of the rows; outside, all ranks have all rows and compute the same. Gradients inside count
`world` times, so that their mean over ranks is the gradient of one process both for weights that are used inside, by
each rank for rows of its own, and for those that are used outside, by all ranks for all rows.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

from normscope.errors import SettingError
from normscope.training.distributed import STEPPING, all_parts, own_part, total, world

Output = TypeVar("Output", bound=Tensor | tuple[Any, ...])


def data_parallel(network: Callable[[Tensor], Output], x: Tensor) -> Output:
    """network(x), for a function of rows [n, …] that gives a tensor or tuple of tensors [n, …].

    Batch norm and dropout are those of the whole batch. Nothing else inside may draw at random or mix rows.
    """
    if not STEPPING.get():
        return network(x)
    rows = len(x)
    if rows < world():
        raise SettingError(f"a batch of {rows} cannot be shared by {world()} processes; start fewer")
    with WholeBatch(rows):
        made = network(scattered(x))
    if isinstance(made, Tensor):
        return cast(Output, gathered(made, rows))
    parts = [gathered(part, rows) for part in made]
    return cast(Output, type(made)(*parts) if hasattr(made, "_fields") else tuple(parts))


def scattered(x: Tensor) -> Tensor:
    return cast(Tensor, Scatter.apply(x))  # type: ignore[no-untyped-call]


def gathered(part: Tensor, rows: int) -> Tensor:
    return cast(Tensor, Gather.apply(part, rows))  # type: ignore[no-untyped-call]


def summed(part: Tensor) -> Tensor:
    return cast(Tensor, Total.apply(part))  # type: ignore[no-untyped-call]


class Scatter(Function):
    """Outside → inside: [n, …] → the rows of this rank.

    Its derivative is a `Gather` and that of a `Gather` is this, so that gradients of gradients are right too.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.rows = len(x)
        return x[own_part(len(x))].clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gathered(gradient / world(), ctx.rows)


class Gather(Function):
    """Inside → outside: the rows of this rank → those of all, [n, …]."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, rows: int) -> Tensor:
        return all_parts(part, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return scattered(gradient) * world(), None


class Total(Function):
    """Inside → inside: the sum over ranks. All ranks' rows depend on it, so its derivative is a sum over ranks too."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        return total(part)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return summed(gradient)


class WholeBatch(TorchFunctionMode):
    """While active, batch norm in training and dropout are those of a batch of `rows`; this rank has a part of it."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is F.batch_norm:
            return batch_norm(*args, **(kwargs or {}))
        if func is F.dropout:
            return self.dropout(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def dropout(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        """The mask is drawn for the whole batch, as one process would."""
        if not training:
            return x
        layout = torch.channels_last if x.ndim == 4 and not x.is_contiguous() else torch.contiguous_format
        whole = torch.ones(self.rows, *x.shape[1:], dtype=x.dtype, device=x.device).contiguous(memory_format=layout)
        with torch._C.DisableTorchFunction():
            return x * F.dropout(whole, p)[own_part(self.rows)]


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`F.batch_norm` with the statistics of all ranks' rows, in one message; torch's SyncBatchNorm needs a GPU."""
    if not training:
        return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    over = [0, *range(2, x.ndim)]
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    own_var, own_mean = torch.var_mean(wide, over, correction=0)
    own_var, own_mean, count = own_var.double(), own_mean.double(), x.numel() / x.shape[1]
    sums = summed(torch.stack([own_mean, own_var + own_mean**2, torch.ones_like(own_mean)]) * count)
    mean, square, n = sums[0] / sums[2], sums[1] / sums[2], float(sums[2, 0].detach())
    variance = (square - mean**2).clamp(min=0)
    if running_mean is not None and running_var is not None:
        running_mean.lerp_(mean.detach().to(running_mean), momentum)
        running_var.lerp_((variance.detach() * (n / max(n - 1, 1))).to(running_var), momentum)
    scale = (variance + eps).rsqrt() * (1 if weight is None else weight.double())
    shift = (0 if bias is None else bias.double()) - mean * scale
    across = (1, -1, *[1] * (x.ndim - 2))
    return torch.addcmul(shift.to(wide).view(across), wide, scale.to(wide).view(across)).to(x.dtype)
