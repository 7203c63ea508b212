"""The cells of Table 1 and Figure 4: the base model with each pair of estimators, in two readings of its soft clip."""

from options import Options

from normscope.benchmark.results import Result

PAIRS = {  # the paper's four; its L2 entropy is the Gaussian bound, the squared norm
    ("infonce", "gaussian"): "NCE + L2",
    ("infonce", "laplace"): "NCE + L1",
    ("jsd", "gaussian"): "JSD + L2",
    ("jsd", "laplace"): "JSD + L1",
}
READINGS = {  # β and c1
    (20.0, "size"): "β = 20, c1 = d (the paper's)",
    (1.0, "root"): "β = 1, c1 = √d",
}


def results(options: Options) -> list[Result]:
    variants = [
        {
            "preset": "paper",
            "encoder": "tiny",
            "beta": b,
            "clip_scale": scale,
            "information": information,
            "entropy": entropy,
        }
        for b, scale in READINGS
        for information, entropy in PAIRS
    ]
    return options.results([cell for variant in variants for cell in options.cells("base", variant, every=1)])


def reading_of(result: Result) -> tuple[float, str]:
    return result["settings"]["beta"], result["settings"]["clip_scale"]


def pair_of(result: Result) -> tuple[str, str]:
    return result["settings"]["information"], result["settings"]["entropy"]
