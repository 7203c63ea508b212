"""Groups classes into superclasses by their names, with Latent Dirichlet Allocation (Blei et al. 2003)."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from normscope.errors import DatasetError
from normscope.files import write_atomically

SUPERCLASSES = 10
WORDS = 3  # of a superclass's name

Grouping = dict[str, list[str]]  # superclass → its classes


def superclasses(names: Mapping[str, str], path: Path) -> Grouping:
    """The grouping saved at `path`; if there is none, a new one, which is saved there if the folder is writable.

    It is saved because another version of scikit-learn may group otherwise, and results must stay comparable.
    """
    if path.exists():
        return _kept(path, names)
    grouping = group(names)
    with suppress(OSError):
        write_atomically(path, json.dumps(grouping, indent=1).encode())
    return grouping


def group(names: Mapping[str, str]) -> Grouping:
    """LDA over the words of `names` (class → its names): each class joins its most probable topic, empty topics go."""
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.feature_extraction.text import CountVectorizer

    try:
        counts = CountVectorizer(token_pattern=r"\w\w+").fit_transform(names.values())
    except ValueError as error:
        raise DatasetError(f"the names of {len(names)} classes cannot be grouped ({error}); expected words") from error
    lda = LatentDirichletAllocation(n_components=SUPERCLASSES, random_state=0, learning_method="batch")
    topics = lda.fit_transform(counts).argmax(axis=1)
    members = [[one for one, topic in zip(names, topics, strict=True) if topic == k] for k in range(SUPERCLASSES)]
    return _named([group for group in members if group], names)


def _named(groups: list[list[str]], names: Mapping[str, str]) -> Grouping:
    """Name each group by words frequent in it and rare elsewhere; where two would share a name, one gets a number."""
    everywhere = Counter(word for text in names.values() for word in _words(text))
    grouping: Grouping = {}
    for group in groups:
        here = Counter(word for one in group for word in _words(names[one]))
        best = sorted(here, key=lambda word: (-(here[word] ** 2) / everywhere[word], word))[:WORDS]
        name = " ".join(best)
        grouping[name if name and name not in grouping else f"{name} {len(grouping)}".strip()] = group
    return grouping


def _words(text: str) -> list[str]:
    return re.findall(r"\w\w+", text.lower())


def _kept(path: Path, names: Mapping[str, str]) -> Grouping:
    advice = "delete it to have it made anew"
    if not path.is_file():
        raise DatasetError(f"{path} is not a regular file; expected a grouping of classes, {advice}")
    try:
        kept = json.loads(path.read_bytes())
        grouping: Grouping = {str(name): [str(one) for one in members] for name, members in kept.items()}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DatasetError(f"{path} is not a grouping of classes ({error}); {advice}") from error
    if sorted(one for members in grouping.values() for one in members) != sorted(names) or not all(grouping.values()):
        raise DatasetError(f"{path} does not put each of {len(names)} classes into one superclass; {advice}")
    return grouping
