import pytest


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--node-rank", 3, "--node-count", 2, "--job", "j"), "--node-rank: 3"),
        (("--node-rank", 0), "name both or none"),
        (("--node-rank", 0, "--node-count", 1), "--job: name the job"),
        (("--collective", "NOTHING"), "--collective: 'NOTHING'"),
        (("--algorithm", "NCLL"), "--algorithm: 'NCLL' is not an algorithm, did you mean NCCL?"),
        (("--file", "jobs.yaml"), "jobs: must be one job with"),
    ],
    ids=["rank", "half", "id", "collective", "algorithm", "file"],
)
def test_a_malformed_job_is_one_line_and_the_command_does_not_run(
    heddle, files, tmp_path, monkeypatch, arguments, text
):
    files("jobs.yaml", "jobs: [{job_id: a, ranks: [h1-n0, h2-n0], collectives: [{kind: ALL_TO_ALL, bytes: 9}]}]")
    monkeypatch.chdir(tmp_path)
    status, out, errors = heddle("exec", *arguments, "--", "touch", tmp_path / "ran")
    assert (status, out, errors.count("\n")) == (2, "", 1)
    assert text in errors
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-1000000]"}, "SLURM_JOB_NODELIST: 1,000,000 hosts or more"),
        ({"RANK": "x", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "RANK: 'x' must be a number"),
    ],
    ids=["hosts", "number"],
)
def test_a_malformed_environment_is_one_line_and_the_command_runs(heddle, tmp_path, monkeypatch, environment, text):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    status, out, errors = heddle("exec", "--", "touch", tmp_path / "ran")
    assert (status, out, errors.count("\n")) == (0, "", 1)
    assert text in errors
    assert (tmp_path / "ran").exists()
