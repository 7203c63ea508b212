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
    """The grouping kept at `path`, or a new one, which is then kept there if the folder can be written to.

    It is kept so that results stay comparable when another version of scikit-learn would group otherwise.
    """
    if path.exists():
        return _kept(path, names)
    grouping = group(names)
    with suppress(OSError):
        write_atomically(path, json.dumps(grouping, indent=1).encode())
    return grouping


def group(names: Mapping[str, str]) -> Grouping:
    """`names` maps a class to its names. Each class goes to its most probable topic; a topic without any is dropped."""
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
    """Each group by the words that are frequent in it and rare elsewhere; a number is added to a name taken twice."""
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
