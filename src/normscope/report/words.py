"""A model's card in plain words."""

from normscope.calibration import percent
from normscope.methods import find
from normscope.model import Model

__all__ = ["count", "in_words"]


def in_words(model: Model) -> dict[str, str]:
    """What a reader should know of a model, by the words it stands under."""
    card = model.card
    return {
        "Method": f"{card['method']}: {(find(card['method']).__doc__ or '').splitlines()[0]}",
        "Learnt from": learnt_from(model),
        "Calibrated with": calibrated_with(model),
        "Sees": sees(model),
        "Training": training(model),
        "Made by": f"normscope {card['normscope']}, PyTorch {card['torch']}",
    }


def learnt_from(model: Model) -> str:
    data = model.card["data"]
    given = count(data["images"], "normal image")
    text = given if data["trained_on"] == data["images"] else f"{data['trained_on']:,} of {given}"
    if data["anomalies"]:
        text += f", and {count(data['anomalies'], 'labelled anomaly', 'labelled anomalies')}"
    if data["skipped"]:
        text += f"; {count(data['skipped'], 'file')} could not be used"
    return text


def calibrated_with(model: Model) -> str:
    known = model.calibration
    if known is None:
        return "nothing: there are scores, but no p-values and no threshold"
    text = f"{count(len(known.scores), 'normal image')} that it had not learnt from, for a false-alarm rate of "
    text += percent(known.rate)
    if known.reviewed:
        were = f"{len(known.reviewed):,} of these {'was' if len(known.reviewed) == 1 else 'were'}"
        text += f"; {were} reviewed as fine and joined later: the threshold was {known.unreviewed.threshold:.4g} "
        text += f"before and is {known.threshold:.4g} now"
    note = (model.card["calibration"] or {}).get("note")
    return text + (f". Note: {note}" if note else "")


def sees(model: Model) -> str:
    _, height, width = model.method.shape
    colour = "; those it learnt from were all grey" if model.card["data"]["grey"] else ""
    return f"every image at {width} × {height} pixels{colour}"


def training(model: Model) -> str:
    trained = model.card["training"]
    steps = count(trained["steps"], "step") if trained["steps"] else "nothing to train"
    health = "" if trained["health"] == "ok" else f"; {trained['health']}"
    return f"{steps}, seed {trained['seed']}, on {trained['device']}{health}"


def count(number: int, word: str, several: str = "") -> str:
    return f"{number:,} {word if number == 1 else several or word + 's'}"
