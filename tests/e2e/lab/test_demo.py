"""`heddle demo` as a user starts it: a short run, and interrupted runs."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from heddle.mininet_topos.demo.results.scenes import KINDS
from heddle.mininet_topos.switches.queue_model import why_unavailable
from tests.support.processes.mosquitto import PROGRAM
from tests.support.traces_of_labs import assert_settings_as_before, free_settings, settings_held_under

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.usefixtures("own_registry")]

ROOT = Path(__file__).parents[3]


class Demo:
    """A demo in a process of its own, with a run directory of its own."""

    def __init__(
        self, folder: Path, *arguments: str, program: tuple[str, ...] = ("heddle.programs.console.main",)
    ) -> None:
        self.run_directory, self.report = Path(os.environ["HEDDLE_RUN_DIR"]), folder / "report"
        command = [
            sys.executable,
            "-m",
            *program,
            "demo",
            "--report",
            str(self.report),
            *arguments,
        ]
        self.mark = f"HEDDLE_RUN_DIR={self.run_directory}"
        self._earlier = self._labs()  # a killed lab leaves its directory to the next one
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def lab_id(self) -> str:
        """Wait for the lab to have an id."""
        while self.process.poll() is None:
            for name in self._labs() - self._earlier:
                return name
            time.sleep(0.01)
        raise AssertionError(self.process.communicate())

    def _labs(self) -> set[str]:
        with suppress(FileNotFoundError):
            return set(os.listdir(self.run_directory / "labs"))
        return set()

    def await_file(self, path: Path) -> None:
        while not path.exists():
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)

    def leftovers(self, lab_id: str) -> list[str]:
        """Return processes, interfaces and directories of the demo that are still there."""
        processes = [name for name in os.listdir("/proc") if name.isdigit() and self._ours(name)]
        interfaces = [name for _, name in socket.if_nameindex() if name.startswith(f"hd{lab_id}")]
        return processes + interfaces + [path.name for path in (self.run_directory / "labs").iterdir()]

    def _ours(self, process: str) -> bool:
        try:
            return self.mark.encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:
            return False


@pytest.mark.alone
def test_a_short_demo_reaches_the_table_with_every_planned_packet_on_its_path(tmp_path):
    demo = Demo(tmp_path, "--workloads", "permutation", "--seeds", "1", "--seconds", "0.6", "--scenes", "cut")
    lab_id = demo.lab_id()
    out, err = demo.process.communicate()
    assert demo.process.returncode == 0, err
    assert "permutation 1" in out
    found = json.loads((demo.report / "results.json").read_text())
    (planned,) = [run for run in found["runs"] if run["mode"] == "planned"]
    assert planned["valid"]
    assert planned["flows_on_exact_links"] == 8
    assert planned["lost_packets"] == 0
    assert planned["certificate"]["max_link_utilisation"] == planned["certificate"]["lower_bound"] == 1.0
    assert [run["mode"] for run in found["runs"]] == ["ecmp", "e-ecmp", "planned"]
    assert_scenes(demo, out, found, ["cut"])
    assert demo.leftovers(lab_id) == []


def assert_scenes(demo: Demo, out: str, found: dict[str, Any], kinds: list[str]) -> None:
    """Each scene was played twice, holds, has the controller's decisions as marks, and is drawn."""
    assert [scene["kind"] for scene in found["scenes"]] == kinds
    page = (demo.report / "report.html").read_text()
    for scene in found["scenes"]:
        assert [run["mode"] for run in scene["runs"]] == ["planned", "ecmp"]
        assert scene["holds"], scene["checks"]
        assert {mark["kind"] for mark in scene["runs"][0]["marks"]} == {"event", "decision"}
        assert f"Scene {scene['kind']}" in out
        assert f"{scene['title']}: goodput over time" in page


@pytest.mark.alone
@pytest.mark.soak
@pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}")
@pytest.mark.skipif(not Path(PROGRAM).exists(), reason="Debian's mosquitto is not installed (scripts/setup all)")
def test_all_scenes_hold(tmp_path):
    demo = Demo(tmp_path, "--workloads", "ring", "--modes", "ecmp,planned", "--seconds", "0.3")
    lab_id = demo.lab_id()
    out, err = demo.process.communicate()
    assert demo.process.returncode == 0, err
    assert_scenes(demo, out, json.loads((demo.report / "results.json").read_text()), list(KINDS))
    assert demo.leftovers(lab_id) == []


@pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}")
def test_a_controller_that_never_replans_fails_the_demo_on_any_machine(tmp_path):
    plant = ("tests.support.planted_demo", "tests.fakes.controllers.never_replans")
    chosen = ("--workloads", "ring", "--modes", "planned", "--scenes", "cut", "--gbps", "0.012", "--seconds", "0.3")
    demo = Demo(tmp_path, *chosen, program=plant)
    demo.lab_id()
    _, err = demo.process.communicate()
    assert demo.process.returncode == 1, err
    assert "heddle: scene cut: 0 of " in err
    (cut,) = json.loads((demo.report / "results.json").read_text())["scenes"]
    assert (cut["verdict"], len(cut["attempts"])) == ("failed", 1)


def test_an_interrupt_while_flows_run_leaves_nothing_and_no_report(tmp_path):
    settings = free_settings()
    demo = Demo(tmp_path, "--workloads", "ring", "--modes", "ecmp,e-ecmp", "--seconds", "2")
    lab_id = demo.lab_id()
    assert demo.process.stderr is not None
    demo.process.stderr.readline()  # the first run has ended, the second is under way
    demo.process.send_signal(signal.SIGINT)
    demo.process.communicate(timeout=60)
    assert demo.process.returncode == 130
    assert demo.leftovers(lab_id) == []
    assert not demo.report.exists()
    assert settings_held_under(demo.run_directory) == []
    assert_settings_as_before(settings)


def test_an_interrupt_while_the_controller_starts_leaves_nothing(tmp_path):
    demo = Demo(tmp_path, "--workloads", "ring", "--modes", "planned", "--seconds", "2")
    lab_id = demo.lab_id()
    demo.await_file(demo.run_directory / "labs" / lab_id / "controller.log")
    demo.process.send_signal(signal.SIGTERM)
    demo.process.communicate(timeout=60)
    assert demo.process.returncode != 0
    assert demo.leftovers(lab_id) == []


def test_a_controller_does_not_outlive_a_killed_demo(tmp_path):
    demo = Demo(tmp_path, "--workloads", "ring", "--modes", "planned", "--seconds", "5")
    log = demo.run_directory / "labs" / demo.lab_id() / "controller.log"
    demo.await_file(log)
    demo.process.kill()
    demo.process.communicate(timeout=60)
    again = Demo(tmp_path, "--workloads", "ring", "--modes", "ecmp", "--seconds", "0.2")
    lab_id = again.lab_id()
    again.process.communicate(timeout=60)
    assert again.process.returncode == 0
    assert again.leftovers(lab_id) == []


@pytest.mark.alone
@pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}")
def test_an_incast_pauses_senders_under_ecmp_and_spares_the_bystander_where_it_is_planned(tmp_path):
    chosen = ("--workloads", "incast", "--modes", "ecmp,planned", "--scenes", "none", "--seeds", "1")
    demo = Demo(tmp_path, *chosen, "--seconds", "1.5")
    lab_id = demo.lab_id()
    _, err = demo.process.communicate()
    assert demo.process.returncode == 0, err
    ecmp, planned = json.loads((demo.report / "results.json").read_text())["runs"]
    assert (ecmp["mode"], planned["mode"]) == ("ecmp", "planned")
    assert ecmp["valid"]
    assert ecmp["congestion"]["dropped_packets"] == planned["congestion"]["dropped_packets"] == 0
    assert ecmp["congestion"]["pfc_frames"] > 5 * planned["congestion"]["pfc_frames"]
    assert planned["flows"][-1]["goodput_bps"] > ecmp["flows"][-1]["goodput_bps"]
    assert planned["flows_on_exact_links"] == 8
    assert "Many to one" in (demo.report / "report.html").read_text()
    assert demo.leftovers(lab_id) == []
