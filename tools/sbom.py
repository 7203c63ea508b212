"""Prints a software bill of materials of this environment: CycloneDX 1.5 in JSON, from the metadata of the packages.

`python tools/sbom.py > sbom.json`, or `make sbom`. Every component has its name, version, licence and package URL.
"""

import json
import re
from importlib.metadata import Distribution, distribution, distributions

OWN = "normscope"


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


def bill() -> dict[str, object]:
    installed = {normalised(one.metadata["Name"]): one for one in distributions() if one.metadata["Name"]}
    others = [component(one) for name, one in sorted(installed.items()) if name != OWN]
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
