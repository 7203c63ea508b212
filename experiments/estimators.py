"""The cells of Table 1 and Figure 4: the base model with each pair of estimators, in two readings, and untrained."""

import readings
from options import Options
from readings import COMPLETE, LITERAL

from normscope.benchmark.cell import Cell
from normscope.benchmark.results import Result

PAIRS = {  # the paper's four; its L2 entropy is the Gaussian bound, the squared norm
    ("infonce", "gaussian"): "NCE + L2",
    ("infonce", "laplace"): "NCE + L1",
    ("jsd", "gaussian"): "JSD + L2",
    ("jsd", "laplace"): "JSD + L1",
}
BETAS = {LITERAL: 20.0, COMPLETE: 5.0}  # each reading at its own


def results(options: Options) -> list[Result]:
    """Those of one seed before those of the next."""
    cells = [cell for reading in BETAS for pair in PAIRS for cell in cells_of(options, reading, pair)]
    return options.results(sorted([*readings.untrained(options), *cells], key=lambda cell: cell.seed))


def followed(options: Options) -> list[Result]:
    """Those of Figure 4: NCE and JSD with L1 on the last task, the complete reading over five epochs."""
    last, pairs = readings.last_task(options), [pair for pair in PAIRS if pair[1] == "laplace"]
    literal = [cell for pair in pairs for cell in cells_of(last, LITERAL, pair)]
    longer = [cell for pair in pairs for cell in readings.followed(last, settings(COMPLETE, pair))]
    return options.results([*literal, *longer])


def cells_of(options: Options, reading: readings.Reading, pair: tuple[str, str]) -> list[Cell]:
    return readings.cells(options, reading, settings(reading, pair))


def settings(reading: readings.Reading, pair: tuple[str, str]) -> dict[str, object]:
    return {"beta": BETAS[reading], "information": pair[0], "entropy": pair[1]}


def pair_of(result: Result) -> tuple[str, str]:
    return result["settings"]["information"], result["settings"]["entropy"]
