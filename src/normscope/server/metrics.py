"""What there is to measure, as Prometheus reads it (text format 0.0.4)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

__all__ = ["CONTENT_TYPE", "Metrics", "lines"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # upper ends of the buckets

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts requests and images; used by the event loop alone."""

    def __init__(self) -> None:
        self.requests: Counter[Labels] = Counter()
        self.images: Counter[Labels] = Counter()
        self.buckets = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0

    def request(self, path: str, status: int, seconds: float) -> None:
        self.requests[("path", path), ("status", str(status))] += 1
        self.buckets[bisect_left(SECONDS, seconds)] += 1
        self.seconds += seconds

    def image(self, model: str, outcome: str) -> None:
        self.images[("model", model), ("outcome", outcome)] += 1

    def text(
        self,
        gauges: Mapping[str, tuple[str, float]],
        counters: Mapping[str, tuple[str, float]],
        moved: Mapping[str, bool],
    ) -> str:
        """All of it, and further figures by name, each with its description; `moved` is said of each model."""
        found = [*lines("requests_total", "counter", "Requests answered.", self.requests)]
        found += lines("images_total", "counter", "Images scored, by verdict.", self.images)
        found += self.histogram()
        for kind, some in (("gauge", gauges), ("counter", counters)):
            for name, (description, value) in some.items():
                found += lines(name, kind, description, {(): value})
        by_model: dict[Labels, float] = {(("model", name),): float(value) for name, value in moved.items()}
        found += lines("normal_moved", "gauge", "Whether scores have moved away from those of calibration.", by_model)
        return "\n".join(found) + "\n"

    def histogram(self) -> Iterator[str]:
        name, total = "normscope_request_seconds", 0
        yield f"# HELP {name} Time from the head of a request to the end of its answer."
        yield f"# TYPE {name} histogram"
        for end, count in zip((*map(str, SECONDS), "+Inf"), self.buckets, strict=True):
            total += count
            yield f'{name}_bucket{{le="{end}"}} {total}'
        yield f"{name}_sum {self.seconds!r}"
        yield f"{name}_count {total}"


def lines(name: str, kind: str, description: str, values: Mapping[Labels, float]) -> Iterator[str]:
    yield f"# HELP normscope_{name} {description}"
    yield f"# TYPE normscope_{name} {kind}"
    for labels, value in values.items():
        inside = ",".join(f'{key}="{escaped(text)}"' for key, text in labels)
        yield f"normscope_{name}{f'{{{inside}}}' if inside else ''} {value}"


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
