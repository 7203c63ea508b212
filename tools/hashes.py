"""Turns pip's report of what it would install (standard input) into requirements with the SHA-256 of every file.

`make hashes` writes requirements.hashes with it: the very files that this machine's index offers for this platform.
"""

import json
import sys
from collections.abc import Mapping


def requirements(report: Mapping[str, list]) -> str:
    lines = []
    for one in sorted(report["install"], key=lambda one: one["metadata"]["name"].lower()):
        digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{one['metadata']['name']}=={one['metadata']['version']} --hash=sha256:{digest}\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(requirements(json.load(sys.stdin)))
