import numpy as np
import pytest
import torch
from PIL import Image

from normscope import load
from normscope.calibration import Calibration
from normscope.errors import ModelFileError, NormscopeError
from normscope.images.notation import cell, printable
from normscope.model import load as load_model
from normscope.recalibration import read_verdicts, recalibrated
from normscope.report.words import calibrated_with

NAMES = ["a b.png", "=1+1.png", "back\\slash.png", "new\nline.png", 'quo"te,.png', "ünï.png"]


def sha(number: int) -> str:
    return f"{number:064x}"


def written(path, rows, header='"path","verdict"'):
    path.write_bytes("".join([f"{header}\r\n", *(f"{row}\r\n" for row in rows)]).encode())
    return path


def test_reviewed_scores_join_and_can_be_taken_away_again():
    before = Calibration(np.array([3.0, 1.0, 2.0, 2.0]), 0.25, "cross")
    after = before.joined_by({sha(1): 2.0, sha(2): 5.0})
    assert after.scores.tolist() == [1, 2, 2, 2, 3, 5]
    assert after.unreviewed.scores.tolist() == [1, 2, 2, 3]
    assert (before.threshold, after.threshold, after.kind) == (3, 5, "cross")
    assert "with these 6 calibration images (2 reviewed as fine) between" in after.promise
    assert "reviewed" not in before.promise
    tensors, card = after.pack()
    assert (card["reviewed"], card["images"], card["threshold_without_reviewed"]) == (2, 6, 3)
    again = Calibration.unpack(tensors, card)
    assert again.scores.tolist() == after.scores.tolist()
    assert again.reviewed == after.reviewed
    assert again.at(0.5).reviewed == after.reviewed


def test_an_image_joins_once():
    once = Calibration(np.arange(9.0), 0.1, "split").joined_by({sha(1): 4.0})
    assert once.joined_by({sha(1): 4.0}).scores.tolist() == once.scores.tolist()
    assert len(once.joined_by({sha(2): 4.0}).scores) == 11


@pytest.mark.parametrize("reviewed", [{sha(1): 0.5}, {sha(1): 1.0, sha(2): 1.0}, {sha(1): 1.0, sha(2): 2.0}])
def test_reviewed_scores_that_are_none_of_the_calibration_are_refused(reviewed):
    tensors, card = Calibration(np.array([1.0, 2.0]), 0.1, "split").pack()
    tensors["calibration.reviewed"] = torch.tensor(list(reviewed.values()), dtype=torch.float64)
    tensors["calibration.reviewed_sha256"] = torch.zeros((len(reviewed), 32), dtype=torch.uint8)
    tensors["calibration.reviewed_sha256"][:, 0] = torch.arange(len(reviewed))
    with pytest.raises(ModelFileError, match="reviewed"):
        Calibration.unpack(tensors, card)


def false_alarms(reviewing: str, draws: int = 400) -> float:
    """Mean share of normal images flagged at 5 %, after 400 of them were scored and some were reviewed as fine."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(draws):
        calibration = Calibration(rng.random(99), 0.05, "split")
        new = rng.random(400)
        chosen = new[calibration.anomalous(new)] if reviewing == "flagged" else new[:100]
        joined = calibration.joined_by({sha(number): score for number, score in enumerate(chosen.tolist())})
        shares.append(1 - joined.threshold)
    return float(np.mean(shares))


def test_the_promise_is_kept_if_the_reviewed_images_are_drawn_at_random():
    assert false_alarms("random") == pytest.approx(0.05, abs=0.003)  # SD 0.015 of one, 400 draws: four standard errors


def test_reviewing_flagged_images_alone_raises_the_threshold_too_far():
    assert false_alarms("flagged") < 0.02


def test_verdicts_are_read_as_a_report_writes_them(tmp_path):
    rows = [f'"{cell(printable(name)).replace(chr(34), 2 * chr(34))}","fine"' for name in NAMES]
    found = read_verdicts(written(tmp_path / "v.csv", [*rows, '"bad.png","anomalous"', '"no.png","skip"', '"x.png",']))
    assert [str(path) for path in found.fine] == NAMES
    assert [str(path) for path in found.anomalous] == ["bad.png"]
    assert found.repeated == 0


def test_a_spreadsheet_may_have_saved_the_verdicts(tmp_path):
    path = written(
        tmp_path / "v.csv", ["1,a.png, Fine ", "2,a.png,fine", "3,b.png,ANOMALOUS"], "\ufeffrank,path,verdict"
    )
    found = read_verdicts(path)
    assert [*map(str, found.fine), *map(str, found.anomalous), found.repeated] == ["a.png", "b.png", 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has the columns of an empty file; give a CSV file with path and verdict"),
        (b"path;verdict\na.png;fine\n", "has the columns path;verdict; give a CSV file with path and verdict, sep"),
        (b"path,score\na.png,1\n", "has the columns path, score"),
        (b"path,verdict\na.png,good\n", "line 2: verdict 'good'; write anomalous, fine, or skip"),
        (b"path,verdict\na.png,fine\na.png,anomalous\n", "line 3: a.png is anomalous here and fine before"),
        (b"path,verdict\na\\b.png,fine\n", "line 2: .*backslash that begins no escape"),
        (b"path,verdict\n\xff.png,fine\n", "is no CSV file in UTF-8"),
        (b'path,verdict\n"a.png,fine\n', "is no CSV file in UTF-8"),
    ],
)
def test_a_file_that_holds_no_verdicts(tmp_path, content, message):
    (tmp_path / "v.csv").write_bytes(content)
    with pytest.raises(NormscopeError, match=message):
        read_verdicts(tmp_path / "v.csv")


def test_scores_join_as_the_model_gives_them_and_the_file_keeps_them(explaining, parts, tmp_path):
    before = load_model(explaining)
    fine = [parts / "good" / f"{number}.png" for number in range(8)]
    (tmp_path / "copy.png").write_bytes(fine[0].read_bytes())
    found = recalibrated(before, [*fine, tmp_path / "copy.png", parts / "cut-off.png", parts / "none.png"])
    assert (found.joined, found.known, len(found.unreadable)) == (8, 1, 2)
    expected = np.sort([*before.calibration.scores, *(row["score"] for row in before.rows(fine))])
    assert found.after.scores == pytest.approx(expected)
    found.model.save(tmp_path / "new")
    new = load_model(tmp_path / "new")
    assert new.calibration.scores.tolist() == found.after.scores.tolist()
    assert new.card["calibration"]["reviewed"] == 8
    assert "; 8 of these were reviewed as fine and joined later: the threshold was" in calibrated_with(new)
    assert "reviewed" not in calibrated_with(before)
    again = recalibrated(new, fine)
    assert (again.joined, again.known) == (0, 8)
    assert again.after.scores.tolist() == new.calibration.scores.tolist()
    assert load(tmp_path / "new").score(np.asarray(Image.open(fine[0]))[None]) == load(explaining).score(
        np.asarray(Image.open(fine[0]))[None]
    )


def test_it_is_said_if_most_of_the_images_had_been_flagged(explaining, parts):
    model = load_model(explaining)
    assert recalibrated(model, sorted((parts / "good").iterdir())).note is None
    found = recalibrated(model, sorted((parts / "bad").iterdir()))
    assert found.flagged == 4
    assert found.note.startswith(
        "4 of 4 images that joined had been flagged, more than of normal images drawn at random"
    )
