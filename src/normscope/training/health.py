"""Is training alive? Values that are not finite stop it; a collapse is named, with advice, when it is over."""

import math
from collections.abc import Collection, Mapping, Sequence

from normscope.errors import TrainingError

LEAST_INFORMATION = 0.02  # nats gained over a critic that knows nothing
LEAST_SPREAD = 1e-3  # standard deviation of a code's entries over a batch
MEMORY = 0.95

TOO_MUCH_ENTROPY = "the entropy term outweighs the information; try a smaller beta, beta=auto or beta_ramp=0.5"


class Health:
    """Running averages of what a method records, and the verdict on them."""

    def __init__(self, averages: Mapping[str, float] | None = None) -> None:
        self.averages = dict(averages or {})

    def watch(self, record: Mapping[str, float], step: int, images: Sequence[int]) -> None:
        """Takes in one step; raises at the first value that is not finite."""
        for name, value in record.items():
            if not math.isfinite(value):
                some = ", ".join([*map(str, images[:5]), *(["…"] if len(images) > 5 else [])])
                raise TrainingError(
                    f"{name} became {value} at step {step} (batch of images {some}); "
                    f"try a smaller learning_rate{' or a smaller beta' if 'beta' in record else ''}"
                )
            self.averages[name] = MEMORY * self.averages.get(name, value) + (1 - MEMORY) * value

    def verdict(self, signs: Collection[str]) -> str:
        """`ok`, or what is wrong and what to do about it. `signs` are the names under which a collapse would show."""
        seen = {name: average for name, average in self.averages.items() if name in signs}
        information, spread = seen.get("information", math.inf), seen.get("spread", math.inf)
        advice = TOO_MUCH_ENTROPY if "beta" in self.averages else "try a smaller learning_rate or fewer epochs"
        if spread < LEAST_SPREAD:
            return f"collapsed: the codes of all images are the same (spread {spread:.1e}); {advice}"
        if information < LEAST_INFORMATION:
            return f"collapsed: the codes say nothing of the image (information {information:.3f} nats); {advice}"
        return "ok"
