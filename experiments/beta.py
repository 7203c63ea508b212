"""The cells of Figures 1 to 3: the base model at every β of the paper, in two readings of its soft clip."""

from options import Options

from normscope.benchmark.results import Result

BETAS = (0.0, 0.5, 1.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
READINGS = {"size": "c1 = d (the paper's)", "root": "c1 = √d (AMDIM's)"}


def results(options: Options) -> list[Result]:
    """Each with its curve, a point per epoch: after five epochs, the paper's interval, a minute is nearly over."""
    betas = (0.0, 20.0) if options.quick else BETAS
    variants = [
        {"preset": "paper", "encoder": "tiny", "beta": beta, "clip_scale": reading}
        for reading in READINGS
        for beta in betas
    ]
    return options.results([cell for variant in variants for cell in options.cells("base", variant, every=1)])


def of(results: list[Result], task: tuple[str, int], reading: str) -> list[Result]:
    """Those of one task and reading, by β."""
    own = [
        result
        for result in results
        if (result["dataset"], result["normal"]) == task and result["settings"]["clip_scale"] == reading
    ]
    return sorted(own, key=lambda result: result["settings"]["beta"])
