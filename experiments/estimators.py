"""The cells of Table 1 and Figure 4: the base model with each pair of estimators, in two readings of its soft clip."""

from normscope.evaluation.experiment import Options, Row

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


def rows(options: Options) -> list[Row]:
    variants = [
        {"encoder": "tiny", "beta": b, "clip_scale": scale, "information": information, "entropy": entropy}
        for b, scale in READINGS
        for information, entropy in PAIRS
    ]
    return options.rows([cell for variant in variants for cell in options.cells("base", variant, every=1)])


def reading_of(row: Row) -> tuple[float, str]:
    return row["settings"]["beta"], row["settings"]["clip_scale"]


def pair_of(row: Row) -> tuple[str, str]:
    return row["settings"]["information"], row["settings"]["entropy"]
