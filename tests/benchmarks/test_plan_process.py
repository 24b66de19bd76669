"""`heddle plan` measured as a process: its input files, and its caches of kernels that are missing or torn."""

import json
from pathlib import Path

import pytest

from heddle.benchmarks.planning import process
from heddle.controller.config import load_fabric, load_jobs


def test_the_files_are_a_permutation_of_all_hosts(tmp_path):
    fabric_path, jobs_path = process._files(tmp_path, 4, 2, 1)
    (job,) = load_jobs(Path(jobs_path), load_fabric(Path(fabric_path)))
    (collective,) = job.collectives
    assert sorted(pair.src_rank for pair in collective.pairs) == list(range(8))
    assert sorted(pair.dst_rank for pair in collective.pairs) == list(range(8))
    assert all(pair.src_rank != pair.dst_rank for pair in collective.pairs)


def test_the_certificate_is_read_without_the_flows(tmp_path):
    job = {"flows": [{"flow_id": "a"}] * 3, "certificate": {"solve_ns": "1500000", "lower_bound": 0.5}}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"jobs": [job]}))
    assert process._certificate(path)["solve_ns"] == "1500000"
    assert process._certificate(path)["lower_bound"] == "0.5"


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A tree with eight files of compiled kernels."""
    cache = tmp_path / "source" / "heddle" / "controller" / "planner" / "ground" / "__pycache__"
    cache.mkdir(parents=True)
    for number in range(8):
        (cache / f"kernel{number}.nbc").write_bytes(b"12345678")
    monkeypatch.setattr(process, "ROOT", tmp_path / "source")
    return tmp_path


def test_a_torn_cache_has_missing_and_truncated_files(source):
    tree = process._tree_with(source / "torn", "half of it torn")
    sizes = sorted(path.stat().st_size for path in (tree / "heddle/controller/planner/ground/__pycache__").iterdir())
    assert sizes == [4, 4, 8, 8, 8, 8]


def test_an_unwritable_cache_is_a_file_in_place_of_the_folder(source):
    tree = process._tree_with(source / "unwritable", "not writable")
    assert (tree / "heddle/controller/planner/ground/__pycache__").is_file()


def test_a_process_that_fails_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="status 2"):
        process._child(["plan", str(tmp_path / "none"), str(tmp_path / "none")], None)
