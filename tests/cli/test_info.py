import json

from normscope import artifact


def test_json_is_the_card_and_the_checksum(run, model):
    code, out, err = run("info", model, "--json")
    card, checksum = artifact.read_card(model)
    assert (code, err) == (0, "")
    assert json.loads(out) == {**card, "sha256": checksum}


def test_people_read_the_same(run, model):
    lines = run("info", model).out.splitlines()
    card, checksum = artifact.read_card(model)
    assert "method: knn" in lines
    assert f"sha256: {checksum}" in lines
    assert lines[lines.index("settings:") + 1 :][:1] == ["  k: 5"]
    assert f"  threshold: {card['calibration']['threshold']}" in lines
    assert f"  promise: {card['calibration']['promise']}" in lines
