import csv
import io
import json
from dataclasses import replace
from statistics import stdev

import pytest

from normscope.benchmark.measurement import checked
from normscope.methods import settings_of
from normscope.settings import to_json
from normscope.tables import layout, paper
from normscope.tables.table import tables


def measured(
    value: float | None = 0.9, *, metric: str = "auroc", dataset: str = "cifar10", method: str = "knn", **more
):
    settings = {**to_json(settings_of(method)()), **more.pop("settings", {})} if method != "foreign" else {"a": [1, 2]}
    given = {"dataset": dataset, "method": method, "normal": 0, "seed": 0, "budget": 60.0, "settings": settings}
    given |= {"metrics": {metric: value}, "health": "ok", "error": None, **more}
    return checked(given, "file line 1")


def only(*measurements, metric: str = "auroc"):
    (table,) = tables(measurements, metric)
    return table


def labels(*measurements):
    return sorted(line.label for line in only(*measurements).lines)


def whole(method: str, value: float = 0.9, **more):
    return [measured(value, method=method, normal=normal, **more) for normal in range(10)]


def test_a_class_is_the_mean_over_seeds_and_the_mean_that_over_classes():
    (line,) = only(measured(0.8), measured(0.9, seed=1), measured(0.6, normal=3), measured(0.7, normal=3, seed=1)).lines
    assert line.values() == pytest.approx({0: 85, 3: 65})
    assert line.mean() == pytest.approx(75)
    assert line.sd() == pytest.approx(stdev([85, 65]))
    assert line.seeds() == (2, 2)


def test_cells_with_their_marks():
    header, ours = layout.cells(only(measured(0.8), measured(0.9, seed=1), measured(0.6, normal=3)))
    assert header == ["method", *map(str, range(10)), "mean", "SD", "seeds"]
    assert ours == ["knn", "85.0", "–", "–", "60.0", *["–"] * 6, "72.5 (2 of 10)", "17.68", "1–2"]
    (_, complete) = layout.cells(only(*whole("knn")))
    assert complete[-3:] == ["90.0", "0.00", "1"]
    (_, single) = layout.cells(only(measured()))
    assert single[-3:] == ["90.0 (1 of 10)", "–", "1"]


def test_a_metric_that_old_results_lack_is_a_dash():
    old = [measured(method="pca"), measured(method="knn", normal=3)]
    table = only(*old, measured(0.7, metric="tpr_at_fpr_01", method="knn"), metric="tpr_at_fpr_01")
    _, knn, pca = layout.cells(table)
    assert knn[:5] == ["knn", "70.0", "–", "–", "–"]
    assert knn[-3:] == ["70.0 (1 of 10)", "–", "1"]
    assert set(pca[1:11]) == {"–"}
    assert pca[-3:] == ["– (0 of 10)", "–", "1"]
    assert "pca" in layout.csv_text([table])
    assert json.dumps(layout.as_json(table))


def test_the_paper_is_beside_what_it_has():
    printed = paper.row("cifar10", "extension")
    _, ours, theirs = layout.cells(only(*whole("extension")))
    assert ours[0] == "extension"
    assert theirs == ["paper: extension", *map(str, printed.classes), "92.6", "3.65", "–"]
    _, ours, theirs = layout.cells(only(*whole("extension")[1:3]))
    assert theirs[-3] == "92.6 (93.0 on the same 2)"  # (97.6 + 88.5) / 2 = 93.05
    assert len(layout.cells(only(*whole("knn")))) == 2


def test_the_paper_has_no_other_metric_and_no_other_data_set():
    assert only(measured(method="base", metric="auprc"), metric="auprc").lines[0].published is None
    assert only(measured(method="base", dataset="digits")).lines[0].published is None


def test_the_best_is_first_whichever_way_the_metric_goes():
    for metric, order in (("auroc", ["knn", "surprisal"]), ("fpr95", ["surprisal", "knn"])):
        table = only(measured(0.9, metric=metric), measured(0.2, metric=metric, method="surprisal"), metric=metric)
        assert [line.label for line in table.lines] == order


def test_one_table_for_each_data_set():
    found = tables([measured(dataset="mnist"), measured(), measured(dataset="digits")], "auroc")
    assert [table.dataset for table in found] == ["cifar10", "digits", "mnist"]
    assert tables([], "auroc") == []


def test_classes_are_all_that_the_data_set_has():
    assert only(measured(dataset="digits")).classes == 10
    assert only(measured(dataset="cifar100")).classes == 20
    assert only(measured(dataset="folder", normal=2)).classes == 3


def test_a_variant_says_what_is_not_the_default():
    assert labels(measured(), measured(settings={"k": 3})) == ["knn", "knn k=3"]
    assert labels(measured(settings={"k": 3})) == ["knn k=3"]
    assert labels(measured(settings={"new": True})) == ["knn new=True"]
    assert labels(measured(epochs=5, test_images=500)) == ["knn at most 5 epochs, 500 test images"]
    assert labels(measured(settings={"k": 3}), measured(test_images=500)) == ["knn 500 test images", "knn k=3"]
    assert labels(measured(method="foreign")) == ["foreign a=1,2"]


def test_a_setting_that_did_not_exist_yet_is_told():
    old = replace(measured(), cell=replace(measured().cell, settings={}))
    assert labels(old, measured()) == ["knn", "knn k unset"]


def test_nor_is_one_told_that_was_added_and_is_empty():
    one = measured(method="surprisal")
    before = {name: value for name, value in one.cell.settings.items() if name != "pretrained"}
    old = replace(one, cell=replace(one.cell, settings=before))
    assert labels(old) == ["surprisal"]


def test_the_budget_is_told_where_there_are_several():
    assert labels(measured(), measured(method="surprisal")) == ["knn", "surprisal"]
    assert labels(measured(), measured(budget=None), measured(budget=90, method="surprisal")) == [
        "knn budget 60 s",
        "knn no budget",
        "surprisal budget 90 s",
    ]


def test_notes_tell_what_collapsed_and_what_is_misprinted():
    measurements = [
        measured(method="base", normal=normal, health="collapsed: all codes are the same") for normal in range(2)
    ]
    table = only(*measurements, measured(method="base", normal=2), measured())
    assert layout.notes(table) == [
        "† base: collapsed in 2 of 3",
        f"‡ paper, base: {paper.row('cifar10', 'base').note}",
    ]
    first = [line[0] for line in layout.cells(table)]
    assert sorted(first) == ["base†", "knn", "method", "paper: base‡"]


def test_failed_cells_are_listed_and_not_measured():
    bad = [measured(None, normal=normal, metrics=None, error=f"MemoryError:\nno {normal}") for normal in (1, 2)]
    table = only(measured(), *bad)
    assert table.lines[0].values() == pytest.approx({0: 90})
    assert layout.notes(table) == ["failed: 2, the first knn, class 1, seed 0: MemoryError: no 1"]
    assert only(*bad).lines == []
    assert "failed: 2" in layout.markdown(only(*bad))


def test_markdown():
    lines = layout.markdown(only(measured(method="foreign", health="a|b"))).splitlines()
    assert lines[0] == "cifar10: auroc in per cent"
    assert lines[2].startswith("| method | 0 | 1 |")
    assert lines[3].startswith("| --- | ---: |")
    assert lines[4].startswith("| foreign a=1,2† | 90.0 | – |")
    assert lines[6] == "- † foreign a=1,2: a|b in 1 of 1"
    assert {line.count(" | ") for line in lines[2:5]} == {13}


def test_latex_is_escaped_and_whole():
    text = layout.latex(only(measured(settings={"a_b": "50%&{}~^\\"})))
    assert r"knn a\_b=50\%\&\{\}\textasciitilde{}\textasciicircum{}\textbackslash{} & 90.0 & -- &" in text
    assert text.count(r"\begin{tabular}{lrrrrrrrrrrrrr}") == text.count(r"\end{tabular}") == 1
    for word in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert word in text
    collapsed = layout.latex(only(measured(health="collapsed: all")))
    assert r"\par\noindent\footnotesize $^\dagger$ knn: collapsed in 1 of 1" in collapsed


def test_csv_has_figures_alone():
    measurements = [
        measured(0.8, method="base"),
        measured(0.9, normal=1, settings={"k": 3}),
        measured(dataset="cifar100"),
    ]
    read = list(csv.DictReader(io.StringIO(layout.csv_text(tables(measurements, "auroc")))))
    assert [(line["dataset"], line["method"], line["source"]) for line in read] == [
        ("cifar10", "knn k=3", "measured"),
        ("cifar10", "base", "measured"),
        ("cifar10", "base", "paper"),
        ("cifar100", "knn", "measured"),
    ]
    assert (read[0]["0"], read[0]["1"], read[0]["mean"], read[0]["sd"], read[0]["measured"]) == (
        "",
        "90.0",
        "90.0",
        "",
        "1",
    )
    assert (read[2]["0"], read[2]["mean"], read[2]["sd"], read[2]["classes"]) == ("89.9", "86.7", "5.47", "10")
    assert [read[3][name] for name in ("classes", "0", "19")] == ["20", "90.0", ""]


def test_json_has_every_cell():
    measurements = [measured(0.8, method="base", intervals={"auroc": [0.7, 0.9]}), measured(0.9, method="base", seed=1)]
    table = json.loads(json.dumps(layout.as_json(only(*measurements)), allow_nan=False))
    (line,) = table["lines"]
    assert (line["method"], line["label"], line["values"]) == ("base", "base", {"0": pytest.approx(85)})
    assert line["cells"][0] == {"normal": 0, "seed": 0, "value": 0.8, "interval": [0.7, 0.9], "health": "ok"}
    assert line["cells"][1]["interval"] is None
    assert line["settings"] == json.loads(json.dumps(to_json(settings_of("base")())))
    assert (line["paper"]["mean"], line["paper_mean_of_the_same_classes"]) == (86.7, 89.9)
