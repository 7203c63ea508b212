"""Operations that ONNX lacks, or that would fix the batch size, replaced by equal ones while a method is traced."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

Function = Callable[..., object]


class Rewrites(TorchFunctionMode):
    """Entered around a forward pass. The first one has to be eager: what no image takes part in (noise from a fixed
    seed, a Cholesky factor of the reference) is recorded there, and comes as a constant, in the same order, later on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[Tensor] = []
        self.replay: Iterator[Tensor] | None = None

    def end_recording(self) -> None:
        self.replay = iter(self.recorded)

    def constant(self, make: Callable[[], Tensor]) -> Tensor:
        if self.replay is not None:
            return next(self.replay)
        self.recorded.append(make())
        return self.recorded[-1]

    def __torch_function__(
        self,
        func: Function,
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in (torch.randn, torch.linalg.cholesky):
            return self.constant(lambda: func(*args, **kwargs))  # type: ignore[arg-type, return-value]
        if func is F.interpolate and kwargs.get("antialias"):
            return self.resized(args[0], kwargs["size"])  # type: ignore[arg-type]
        if func is torch.linalg.solve_triangular:
            return self.solved(*args)  # type: ignore[arg-type]
        if func in EQUAL:
            return EQUAL[func](*args, **kwargs)
        return func(*args, **kwargs)

    def solved(self, lower: Tensor, right: Tensor) -> Tensor:
        """By the inverse of the lower triangle, which is that of a reference."""
        identity = torch.eye(lower.shape[-1]).to(lower).expand_as(lower)
        return self.constant(lambda: torch.linalg.solve_triangular(lower, identity, upper=False)) @ right

    def resized(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """Bilinear with antialiasing is linear in rows and in columns: a matrix on either side."""
        height, width = (
            self.constant(lambda side=side, new=new: matrix(side, new))  # type: ignore[misc]
            for side, new in zip(x.shape[2:], size, strict=True)
        )
        return ((x @ width.T).transpose(2, 3) @ height.T).transpose(2, 3)  # OpenVINO errs with constants on the left

    def __enter__(self) -> Self:
        if self.replay is not None:
            self.end_recording()  # from the start
        super().__enter__()  # type: ignore[no-untyped-call]
        return self


def matrix(side: int, new: int) -> Tensor:
    """[new, side]: what antialiased resizing makes of the columns of an identity."""
    columns = torch.eye(side)[None, None]
    return F.interpolate(columns, (new, side), mode="bilinear", align_corners=False, antialias=True)[0, 0]


def split(x: Tensor, size: int | list[int], dim: int = 0) -> tuple[Tensor, ...]:
    """A batch in one piece: methods split it to save memory, and the number of pieces would be fixed."""
    return (x,) if isinstance(size, int) and dim == 0 else torch.functional.split(x, size, dim)


def searchsorted(knots: Tensor, x: Tensor) -> Tensor:
    """[k, m], [k, n] → [k, n]: how many knots lie below."""
    return (knots[:, None] < x[:, :, None]).long().sum(2)


def cdist(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: str = "") -> Tensor:
    """Euclidean, [n, d], [m, d] → [n, m]. Around the mean of b, for where float64 is computed as float32."""
    a, b = a - b.mean(0), b - b.mean(0)
    squares = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * (a @ b.T)
    return squares.clamp(min=0).sqrt()


def half(x: Tensor) -> Tensor:
    """Rounded to the 11 bits of half precision (Dekker 1971) but kept in float32, where OpenVINO would not round."""
    large = x * (2**13 + 1)
    return large - (large - x)


EQUAL: Mapping[Function, Function] = {
    Tensor.split: split,
    torch.functional.split: split,
    torch.searchsorted: searchsorted,
    torch.cdist: cdist,
    Tensor.half: half,
}
