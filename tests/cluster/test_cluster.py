"""A Ray cluster of several nodes on this machine, of which one is killed mid-way; needs the extra `cluster`."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("ray")
import ray
from pyarrow.parquet import read_table
from ray.cluster_utils import Cluster

from normscope import Detector
from normscope.benchmark.cell import Cell
from normscope.benchmark.grid import missing, run_all
from normscope.benchmark.worker import workers as local_workers
from normscope.cli import main
from normscope.cluster.ray_grid import workers
from normscope.cluster.ray_score import Job, score_files
from normscope.errors import ClusterError
from normscope.images.folder import scan
from normscope.methods import settings_of
from normscope.model import load
from normscope.settings import to_json

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
TIMES = {"seconds", "images_per_second"}


@pytest.fixture
def cluster():
    """Three nodes of one CPU each."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.second, made.third = made.add_node(num_cpus=1), made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    images = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
    Detector("pca", false_alarm_rate=0.1).fit(images).save(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Sixty images and one that cannot be read."""
    made = tmp_path_factory.mktemp("images")
    for number, image in enumerate(np.random.default_rng(1).integers(0, 256, (60, 28, 28), dtype=np.uint8)):
        Image.fromarray(image).save(made / f"{number:02}.png")
    (made / "30b.png").write_bytes(b"\x89PNG\r\n")
    return made


def rows_in(parts: Path) -> list[dict]:
    return [row for path in sorted(parts.glob("part-*.parquet")) for row in read_table(path).to_pylist()]


def test_a_node_that_is_killed_costs_no_scored_file(cluster, model, folder, tmp_path):
    files = scan(folder)
    scoring = score_files(Job(model, None, tmp_path), files, in_a_part=4)
    next(scoring)
    cluster.remove_node(cluster.second, allow_graceful=False)
    tallies = [*scoring]
    assert len(tallies) == 15
    local = [*load(model).rows([one.path for one in files])]
    assert [*map(unscored, rows_in(tmp_path))] == [*map(unscored, local)]
    scores = [np.array([row["score"] for row in rows], float) for rows in (rows_in(tmp_path), local)]
    np.testing.assert_allclose(*scores, rtol=1e-5)  # parts are other batches, which round in another way
    assert sum(row["error"] is not None for row in local) == 1


def unscored(row: dict) -> dict:
    return {key: value for key, value in row.items() if key not in ("score", "p_estimate")}


def test_parts_that_are_there_are_not_scored_again(cluster, model, folder, tmp_path):
    files = scan(folder)
    first = [*score_files(Job(model, None, tmp_path), files, in_a_part=16)]
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("part-*.parquet")}
    lost = min(kept)
    lost.unlink()
    assert [*score_files(Job(model, None, tmp_path), files, in_a_part=16)] == first
    changed = {path for path in kept if path.stat().st_mtime_ns != kept[path]}
    assert changed == {lost}
    with pytest.raises(ClusterError, match="another run"):
        next(score_files(Job(model, None, tmp_path), files[1:], in_a_part=16))


def test_a_node_that_is_killed_costs_no_cell(cluster, tmp_path):
    cells = [
        Cell("digits", method, normal, 0, None, to_json(settings_of(method)()))
        for method in ("knn", "pca")
        for normal in range(4)
    ]
    with local_workers(1, None, 1) as crew:
        local = [*run_all(missing(cells, tmp_path / "local"), crew)]
    with workers(None, 1) as crew:
        assert len(crew) == 3
        running = run_all(missing(cells, tmp_path / "ray"), crew)
        found = [next(running)]
        cluster.remove_node(cluster.third, allow_graceful=False)
        found += running
    assert sorted(map(untimed, found)) == sorted(map(untimed, local))
    assert missing(cells, tmp_path / "ray").cells == []


def untimed(row: dict) -> str:
    return json.dumps({key: value for key, value in row.items() if key not in TIMES}, sort_keys=True)


def test_the_command_line_scores_and_measures_on_a_cluster(cluster, model, folder, tmp_path, capsys):
    parts, out = tmp_path / "parts", tmp_path / "r.jsonl"
    with pytest.raises(SystemExit) as left:
        main(["score", str(model), str(folder), "--on", "ray", "--parquet", str(parts), "--json"])
    assert left.value.code == 3  # one file cannot be read
    assert json.loads(capsys.readouterr().out)["images"] == 61
    assert len(rows_in(parts)) == 61
    with pytest.raises(SystemExit) as left:
        main(["bench", "digits", "--methods", "pca", "--classes", "0", "--on", "ray", "--out", str(out)])
    assert not left.value.code
    assert len(out.read_text().splitlines()) == 1


def test_the_server_runs_under_ray_serve(model, folder):
    import httpx2 as httpx
    from ray import serve

    from normscope.cluster.serve import deployment

    ray.init(num_cpus=3, log_to_driver=False, logging_level="error", include_dashboard=False)
    try:
        serve.start(http_options={"port": 8765})
        serve.run(deployment([model]))
        image = folder / "00.png"
        answer = httpx.post("http://127.0.0.1:8765/score", files={"files": image.read_bytes()}, timeout=60).json()
        assert answer[0]["score"] == pytest.approx(next(load(model).rows([image]))["score"])
    finally:
        serve.shutdown()
        ray.shutdown()
