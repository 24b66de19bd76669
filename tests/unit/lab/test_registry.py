"""Labs are alive as long as their owner holds the lock; dead labs are removed, living ones are left alone."""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from heddle.mininet_topos.host import cleanup, sysctl
from heddle.mininet_topos.host.registry import LabRegistration, clear_dead_labs, living_labs

ROOT = Path(__file__).parents[3]
OWNER = """
import sys, subprocess
from heddle.mininet_topos.host.registry import LabRegistration
entry = LabRegistration().entry
child = subprocess.Popen(["sleep", "600"], env=entry.environment, stdout=subprocess.DEVNULL)
print(entry.id, child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def run_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(sysctl, "MACHINE_STATE_DIRECTORY", tmp_path / "book")
    return tmp_path


def start_owner() -> tuple[subprocess.Popen, str, int]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    lab_id, child = owner.stdout.readline().split()
    return owner, lab_id, int(child)


def sleeper(lab: str) -> subprocess.Popen:
    """Start a process with a lab's tag, and wait until /proc shows it: the environment is empty at first."""
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, "HEDDLE_LAB": lab})
    while f"HEDDLE_LAB={lab}".encode() not in Path(f"/proc/{child.pid}/environ").read_bytes().split(b"\0"):
        time.sleep(0.001)
    return child


def kill(owner: subprocess.Popen) -> None:
    owner.kill()
    owner.communicate()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_two_labs_have_different_ids_and_end_apart():
    one, other = LabRegistration(), LabRegistration()
    assert sorted((one.entry.id, other.entry.id)) == list(living_labs())
    one.end()
    assert living_labs() == (other.entry.id,)
    other.end()
    assert living_labs() == ()


def test_ending_twice_is_harmless():
    lab = LabRegistration()
    lab.end()
    lab.end()
    assert living_labs() == ()


def test_a_lab_whose_owner_lives_is_not_cleared():
    owner, lab_id, child = start_owner()
    try:
        assert clear_dead_labs() == ()
        assert is_running(child)
        assert living_labs() == (lab_id,)
    finally:
        kill(owner)
        clear_dead_labs()


def test_the_next_lab_ends_the_processes_of_a_killed_one_and_removes_its_directory(run_directory):
    owner, lab_id, child = start_owner()
    kill(owner)
    assert is_running(child)
    lab = LabRegistration()
    assert not is_running(child)
    assert not (run_directory / "labs" / lab_id).exists()
    lab.end()


def test_a_process_without_the_tag_is_left_alone():
    owner, _, child = start_owner()
    stranger = sleeper("none-of-them")
    kill(owner)
    clear_dead_labs()
    assert not is_running(child)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_tag_must_be_equal_and_not_only_a_prefix():
    begins = f"begins-{uuid.uuid4().hex}"
    child = sleeper(f"{begins}5")
    assert cleanup.end_processes(f"HEDDLE_LAB={begins}") == 0
    assert cleanup.end_processes(f"HEDDLE_LAB={begins}5") == 1
    child.wait()


def test_a_process_that_ignores_sigterm_is_killed(monkeypatch):
    monkeypatch.setattr(cleanup, "TERM_WAIT_S", 0.05)
    stubborn = (
        "import signal,time\nfor n in (1, 15): signal.signal(n, signal.SIG_IGN)\nprint(flush=True); time.sleep(600)"
    )
    tag = f"stubborn-{uuid.uuid4().hex}"  # the same test may run in parallel
    environment = {**os.environ, "HEDDLE_LAB": tag}
    child = subprocess.Popen([sys.executable, "-c", stubborn], env=environment, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    assert cleanup.end_processes(f"HEDDLE_LAB={tag}") == 1
    child.communicate()
    assert not is_running(child.pid)


def test_a_directory_left_before_its_lab_wrote_anything_is_removed(run_directory):
    (run_directory / "labs" / "zzzz").mkdir(parents=True)
    assert clear_dead_labs() == ("zzzz",)
    assert list((run_directory / "labs").iterdir()) == []


class TestSettings:
    @pytest.fixture(autouse=True)
    def machine(self, tmp_path, monkeypatch):
        book = tmp_path / "book"
        monkeypatch.setattr(sysctl, "_value_path", lambda name: tmp_path / name)
        monkeypatch.setattr(sysctl, "MACHINE_STATE_DIRECTORY", book)
        (tmp_path / "size").write_text("100\n")
        self.value, self.book = tmp_path / "size", book / "settings.json"

    def test_the_first_lab_saves_the_old_value_and_the_last_one_restores_it(self):
        sysctl.hold_settings(Path("/one"), {"size": "900"})
        sysctl.hold_settings(Path("/two"), {"size": "900"})
        sysctl.release_settings(Path("/one"))
        assert self.value.read_text() == "900"
        sysctl.release_settings(Path("/two"))
        assert self.value.read_text() == "100"
        assert not self.book.exists()

    def test_a_value_that_someone_else_changed_meanwhile_stays(self):
        sysctl.hold_settings(Path("/one"), {"size": "900"})
        self.value.write_text("500")
        sysctl.release_settings(Path("/one"))
        assert self.value.read_text() == "500"

    def test_releasing_what_was_never_held_changes_nothing(self):
        sysctl.hold_settings(Path("/one"), {"size": "900"})
        sysctl.release_settings(Path("/stranger"))
        assert self.value.read_text() == "900"
        assert sysctl.holders() == {"/one"}

    def test_a_lab_that_is_alive_keeps_its_settings_and_a_dead_one_of_any_directory_does_not(self, tmp_path):
        sysctl.hold_settings(tmp_path / "of-another-directory-and-gone", {"size": "900"})
        lab = LabRegistration()
        sysctl.hold_settings(lab.entry.directory, {"size": "900"})
        clear_dead_labs()
        assert sysctl.holders() == {str(lab.entry.directory)}
        assert self.value.read_text() == "900"
        lab.end()
        assert self.value.read_text() == "100"
