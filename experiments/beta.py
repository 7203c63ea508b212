"""The cells of Figures 1 to 3: the base model at every β of the paper, in two readings of its soft clip."""

from normscope.evaluation.experiment import Options, Row

BETAS = (0.0, 0.5, 1.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
READINGS = {"size": "c1 = d (the paper's)", "root": "c1 = √d (AMDIM's)"}


def rows(options: Options) -> list[Row]:
    """Each with its curve, a point per epoch: after five epochs, the paper's interval, a minute is nearly over."""
    betas = (0.0, 20.0) if options.quick else BETAS
    variants = [{"encoder": "tiny", "beta": beta, "clip_scale": reading} for reading in READINGS for beta in betas]
    return options.rows([cell for variant in variants for cell in options.cells("base", variant, every=1)])


def of(rows: list[Row], task: tuple[str, int], reading: str) -> list[Row]:
    """Those of one task and reading, by β."""
    own = [row for row in rows if (row["dataset"], row["normal"]) == task and row["settings"]["clip_scale"] == reading]
    return sorted(own, key=lambda row: row["settings"]["beta"])
