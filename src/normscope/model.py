"""Model: a fitted method as an immutable value; the command line, reports, servers and exports share it."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

from normscope import artifact, inference
from normscope.calibration import Calibration
from normscope.card import Card, size_of
from normscope.errors import ModelFileError, SettingError
from normscope.images import store
from normscope.images.notation import printable
from normscope.images.outcome import FileOutcome, Kind
from normscope.images.reader import MAX_PIXELS
from normscope.images.size import Size
from normscope.images.store import Store
from normscope.methods import find
from normscope.options import Options, options_of
from normscope.sealed import TensorInfo
from normscope.settings import JSON
from normscope.training.method import Method, Reference, part, under
from normscope.training.randomness import seeded
from normscope.triangles import packed, unpacked

NOT_FINITE = "its score or heat map is NaN or infinite: the model does not suit it; fit another"
WEIGHTS, REFERENCE = "weights", "reference"  # what the names of tensors in a model file begin with


class Row(TypedDict):
    """What became of one file; one that cannot be read has an error and nothing else.

    `p_value` comes with a promise; `p_estimate` goes on where no calibration image scored as high, and comes with none.
    """

    path: str
    score: float | None
    p_value: float | None
    p_estimate: float | None
    anomalous: bool | None
    error: str | None


class Verdict(NamedTuple):
    """What a calibration says of a score."""

    p_value: float | None
    p_estimate: float | None
    anomalous: bool | None


NO_VERDICT = Verdict(None, None, None)


class Scored(NamedTuple):
    """A row and, where it was asked for, the heat map [h, w] of its image at the method's own grid."""

    row: Row
    heat: npt.NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class Model:
    """A method with trained weights, the reference fitted to its training images, and what its scores mean.

    `calibration` is None if no images were held out: then there are scores alone. Nothing here changes a model, so
    that any number of callers can share one.
    """

    method: Method
    reference: Reference
    calibration: Calibration | None
    card: Card
    device: torch.device

    @property
    def size(self) -> Size:
        """Height and width to which images are resized."""
        return self.method.shape[1:]

    def scores(self, pixels: Store) -> npt.NDArray[np.float64]:
        """[n], higher is more anomalous."""
        return inference.scores(self.method, self.reference, inference.encoded(self.method, pixels, self.device))

    def codes(self, pixels: Store) -> npt.NDArray[np.float64]:
        """[n, d]: the vector that the method represents each image by."""
        if not self.method.has_codes:
            raise SettingError(f"the method {self.card['method']} has no codes; use another")
        return inference.codes(self.method, inference.encoded(self.method, pixels, self.device))

    def heat_maps(self, pixels: Store, size: Size) -> npt.NDArray[np.float64]:
        """[n, *size]: higher where the image is more surprising."""
        self.check_explains()
        images = inference.encoded(self.method, pixels, self.device)
        return inference.heat_maps(self.method, self.reference, images, size)

    def check_explains(self) -> None:
        if not self.method.explains:
            raise SettingError(f"the method {self.card['method']} cannot say where an image is surprising; use another")

    def rows(self, paths: Iterable[str | Path]) -> Iterator[Row]:
        """One row for each file, in order, as they come: two batches of images are in memory at a time."""
        return (one.row for one in self.scored(paths, with_heat=False))

    def scored(self, paths: Iterable[str | Path], *, with_heat: bool, max_pixels: int = MAX_PIXELS) -> Iterator[Scored]:
        """As `rows`; with heat maps, for which no image is read or goes through a frozen encoder a second time."""
        if with_heat:
            self.check_explains()
        together = inference.batch_size(self.method)
        files = (path if isinstance(path, Path) else Path(path) for path in paths)
        for batch in store.in_batches(files, self.size, together, max_pixels=max_pixels):
            yield from self.scored_batch(*batch, with_heat)

    def scored_batch(self, pixels: Store, outcomes: Sequence[FileOutcome], with_heat: bool) -> Iterator[Scored]:
        images = inference.encoded(self.method, pixels, self.device)
        maps = None
        if with_heat:
            scores, maps = inference.raw_judgements(self.method, self.reference, images)
            sound = np.isfinite(scores) & np.isfinite(maps).all(tuple(range(1, maps.ndim)))
        else:
            scores = inference.raw_scores(self.method, self.reference, images)
            sound = np.isfinite(scores)
        verdicts = self.verdicts(np.where(sound, scores, 0.0))  # all at once: one by one they take longer than decoding
        heat = [None] * len(scores) if maps is None else maps
        found = zip(sound, scores.tolist(), verdicts, heat, strict=True)
        for one in outcomes:
            if one.kind is not Kind.IMAGE:
                yield Scored(self.row(one.path, one.reason), None)
                continue
            fine, score, verdict, own = next(found)
            if fine:
                yield Scored(self.row(one.path, None, score, verdict), own)
            else:
                yield Scored(self.row(one.path, NOT_FINITE), None)

    def verdicts(self, scores: npt.NDArray[np.float64]) -> list[Verdict]:
        """One for each score [n]."""
        known = self.calibration
        if known is None:
            return [NO_VERDICT] * len(scores)
        estimates = known.estimates(scores)
        estimated = [None] * len(scores) if estimates is None else estimates.tolist()
        return [*map(Verdict, known.p_values(scores).tolist(), estimated, known.anomalous(scores).tolist())]

    def row(self, path: Path, error: str | None, score: float | None = None, verdict: Verdict = NO_VERDICT) -> Row:
        return {
            "path": printable(path),
            "score": score,
            "p_value": verdict.p_value,
            "p_estimate": verdict.p_estimate,
            "anomalous": verdict.anomalous,
            "error": error,
        }

    def at(self, rate: float) -> "Model":
        """The same model with another false-alarm rate."""
        if self.calibration is None:
            raise SettingError("the model was fitted without a calibration set; fit it with a false-alarm rate")
        return self.calibrated(self.calibration.at(rate))

    def calibrated(self, calibration: Calibration) -> "Model":
        """The same model with another calibration, which its card tells of."""
        return replace(self, calibration=calibration, card={**self.card, "calibration": calibration.pack()[1]})

    def save(self, path: str | Path) -> str:
        """Writes the model file, whole or not at all; returns its SHA-256."""
        tensors = under(WEIGHTS, self.method.state_dict())
        tensors |= under(REFERENCE, packed(self.reference))
        tensors |= self.calibration.pack()[0] if self.calibration else {}
        return artifact.save(path, tensors, cast(dict[str, JSON], self.card))


def load(path: str | Path, *, device: str = "auto") -> Model:
    """The model in a file. Nothing in the file is executed, and a file that was changed is refused.

    Its tensors are compared with what its card asks for before any of them is read and any network is allocated.
    """
    read, header = artifact.read_header(path)
    card = cast(Card, read)
    with refusals(path):
        options = options_of(card, device)
        shape = (3, *size_of(card))
        check_weights(part(header.tensors, WEIGHTS), options, shape)
    tensors = artifact.read_tensors(path, header)
    with refusals(path):
        model = from_tensors(tensors, made(options, shape), card, options)
        check_reference(model)
    return model


@contextmanager
def refusals(path: str | Path) -> Iterator[None]:
    """Whatever a card or a tensor that is not ours leads to is the file's fault."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RuntimeError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelFileError(f"{path} does not hold a model of this version ({reason}); fit it again") from error


def check_reference(model: Model) -> None:
    """Score a grey image: a reference has no shapes of its own to compare. Not where that takes seconds."""
    if model.method.scores_quickly:
        scores = model.scores(store.from_arrays([np.full(model.size, 128, np.uint8)], model.size))
        if scores.shape != (1,) or not np.isfinite(scores).all():
            raise ModelFileError("it has no score for a grey image")


def from_tensors(tensors: Mapping[str, torch.Tensor], method: Method, card: Card, options: Options) -> Model:
    method.load_state_dict(part(tensors, WEIGHTS))
    method.to(options.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    reference = {name: value.to(options.device) for name, value in unpacked(part(tensors, REFERENCE)).items()}
    calibration = Calibration.unpack(tensors, card["calibration"]) if card["calibration"] else None
    return Model(method.eval(), reference, calibration, card, options.device)


def made(options: Options, shape: tuple[int, int, int]) -> Method:
    """The method as the card describes it; its weights are still to be loaded."""
    with seeded(0):  # weights are drawn, only to be replaced; not from the caller's generator
        return find(options.method)(options.settings, shape)


def check_weights(stored: Mapping[str, TensorInfo], options: Options, shape: tuple[int, int, int]) -> None:
    """Raise unless the file has the weights of this method, by name, type and shape; nothing is allocated."""
    with torch.device("meta"), at_most(2 * len(stored) + 100):
        wanted = {
            name: TensorInfo(one.dtype, tuple(one.shape)) for name, one in made(options, shape).state_dict().items()
        }
    for name in wanted.keys() | stored.keys():
        if wanted.get(name) != stored.get(name):
            raise ModelFileError(f"{name} is {stored.get(name)} and should be {wanted.get(name)}")


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Inside, networks may register so many parameters: a card must not make us build a million layers."""
    left = itertools.count(count, -1)

    def register(*_: object) -> None:
        if next(left) <= 0:
            raise ModelFileError("its settings ask for more layers than it has")

    hook = register_module_parameter_registration_hook(register)
    try:
        yield
    finally:
        hook.remove()
