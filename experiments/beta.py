"""The cells of Figures 1 to 3: the base model at the paper's β, in three readings, and untrained."""

import readings
from options import Options
from readings import COMPLETE, LITERAL, TWO_TERMS, Reading

from normscope.benchmark.results import Result

BETAS = {
    LITERAL: (0.0, 0.5, 1.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    COMPLETE: (0.0, 5.0, 20.0, 60.0),
    TWO_TERMS: (0.0, 5.0, 20.0),
}
FOLLOWED = (5.0, 60.0)  # those whose training is followed over five epochs
QUICK = (0.0, 20.0)


def results(options: Options) -> list[Result]:
    """Those of one seed before those of the next."""
    variants = [(reading, beta) for reading in BETAS for beta in (QUICK if options.quick else BETAS[reading])]
    cells = [cell for reading, beta in variants for cell in readings.cells(options, reading, {"beta": beta})]
    return options.results(sorted([*readings.untrained(options), *cells], key=lambda cell: cell.seed))


def followed(options: Options) -> list[Result]:
    """Those of Figure 2: the literal reading and, over five epochs, the complete one, on the last task."""
    last = readings.last_task(options)
    literal_betas = QUICK if options.quick else BETAS[LITERAL]
    literal = [cell for beta in literal_betas for cell in readings.cells(last, LITERAL, {"beta": beta})]
    longer = [cell for beta in FOLLOWED for cell in readings.followed(last, {"beta": beta})]
    return options.results([*literal, *longer])


def of(results: list[Result], task: tuple[str, int], reading: Reading) -> dict[float, list[Result]]:
    """Those of one task and reading that were trained, by β: a list of seeds each."""
    own: dict[float, list[Result]] = {}
    for result in sorted(results, key=lambda result: result["settings"]["beta"]):
        if readings.is_of(result, task, reading):
            own.setdefault(result["settings"]["beta"], []).append(result)
    return own
