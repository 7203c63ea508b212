"""Prints a software bill of materials: CycloneDX 1.5 in JSON, from the metadata of the packages in this environment.

`python tools/sbom.py > sbom.json`, or `make sbom`; `make release` puts it beside the wheel. It has what normscope and
its extras need, as far as it is installed, and not what only development does. Every component has its name, version,
licence and package URL.
"""

import json
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

OWN = "normscope"
DEVELOPMENT = {"dev", "docs"}  # extras


def component(one: Distribution) -> dict[str, object]:
    name, version = one.metadata["Name"], one.version
    url = f"pkg:pypi/{normalised(name)}@{version}"
    found: dict[str, object] = {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}
    return found | ({"licenses": [{"license": {"name": licence(one)}}]} if licence(one) else {})


def licence(one: Distribution) -> str | None:
    """An SPDX expression, a short text, or the classifiers: whichever the package gives."""
    given = one.metadata.get("License-Expression") or one.metadata.get("License")
    if given and "\n" not in given and len(given) < 100:
        return str(given)
    names = [
        line.rpartition(" :: ")[2] for line in one.metadata.get_all("Classifier") or [] if line.startswith("License")
    ]
    return ", ".join(names) or None


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed() -> dict[str, Distribution]:
    """By name: what normscope needs with its extras, and what that needs."""
    extras = frozenset(distribution(OWN).metadata.get_all("Provides-Extra") or []) - DEVELOPMENT
    todo, seen = [(OWN, extras)], {(OWN, extras)}
    found: dict[str, Distribution] = {}
    while todo:
        name, wanted = todo.pop()
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # of an extra
            continue
        for one in map(Requirement, found[name].requires or []):
            key = normalised(one.name), frozenset(one.extras)
            if key not in seen and applies(one, wanted):
                seen.add(key)
                todo.append(key)
    return found


def applies(one: Requirement, extras: frozenset[str]) -> bool:
    return one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def bill() -> dict[str, object]:
    others = [component(one) for name, one in sorted(needed().items()) if name != OWN]
    own = {**component(distribution(OWN)), "type": "application"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": others,
    }


if __name__ == "__main__":
    print(json.dumps(bill(), indent=1))
