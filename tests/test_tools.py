"""The scripts of tools/."""

import runpy
from pathlib import Path

TOOLS = Path(__file__).parent.parent / "tools"


def test_the_bill_of_materials_has_every_dependency_once_with_version_and_url():
    bill = runpy.run_path(str(TOOLS / "sbom.py"))["bill"]()
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "normscope")
    urls = [one["purl"] for one in bill["components"]]
    assert len(set(urls)) == len(urls)
    found = {one["name"].lower(): one for one in bill["components"]}
    for name in ("torch", "numpy", "pillow", "safetensors", "scipy"):
        assert found[name]["version"]
        assert found[name]["licenses"][0]["license"]["name"]
    assert "fastapi" in found
    assert not {"pytest", "ruff", "mkdocs", "normscope"} & found.keys()


def test_hashes_are_requirements_that_pip_takes():
    requirements = runpy.run_path(str(TOOLS / "hashes.py"))["requirements"]
    digest = {"archive_info": {"hashes": {"sha256": "ab" * 32}}}
    report = [{"metadata": {"name": name, "version": "1.0"}, "download_info": digest} for name in ("b", "A")]
    assert requirements({"install": report}) == "".join(f"{name}==1.0 --hash=sha256:{'ab' * 32}\n" for name in "Ab")


def test_the_lock_with_hashes_has_the_versions_of_the_lock():
    """`make hashes` writes it anew."""
    lock, hashes = ((TOOLS.parent / f"requirements.{name}").read_text().splitlines() for name in ("lock", "hashes"))
    wanted = {normalised(line) for line in lock if "==" in line and not line.startswith("#")}
    pinned = [line.partition(" --hash=sha256:") for line in hashes]
    assert {normalised(one.partition("+")[0]) for one, _, _ in pinned} == wanted
    assert all(len(digest) == 64 for _, _, digest in pinned)


def normalised(requirement):
    return requirement.strip().lower().replace("_", "-").replace(".", "-")
