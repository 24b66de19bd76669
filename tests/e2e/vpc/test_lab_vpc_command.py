"""`heddle lab vpc` and `heddle lab exec` from a user's view: output, and removal of everything."""

import json
import select
import signal
import subprocess
import sys

import pytest

from heddle.mininet_topos.host.registry import clear_dead_labs
from heddle.mininet_topos.vpc.balanced import may_spread
from tests.support.traces_of_labs import NOTHING, lab_directories, traces_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
HEDDLE = (sys.executable, "-m", "heddle.programs.console.main", "lab")
TIMEOUT_S = 600
CLIENTS = ("red3", "green1", "internet", "blue1", "blue3", "site") if may_spread({"h1": "kernel"}) else ()
"""Of virtual IPs: in another subnet, a peer VPC, the internet by a floating IP; in the same subnet, a customer."""


def start(*options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([*HEDDLE, "vpc", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ready_line(process: "subprocess.Popen[str]") -> dict:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], TIMEOUT_S)[0]
    line = process.stdout.readline()
    assert line, process.communicate()
    return json.loads(line)


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*HEDDLE, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def end(process: "subprocess.Popen[str]", number: signal.Signals) -> int:
    process.send_signal(number)
    process.communicate(timeout=TIMEOUT_S)
    return process.returncode


def heddle(*words: str) -> dict:
    done = subprocess.run([*HEDDLE[:-1], *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    return json.loads(done.stdout)


def test_a_lab_stays_until_it_is_interrupted_may_be_entered_and_leaves_nothing():
    process = start("--json", "--vtep", "mixed")
    try:
        found = ready_line(process)
        lab = found["lab"]
        assert (found["agree"], found["isolation"]) == (True, {"sound": True, "findings": []})
        results = {(each["from"], each["to"], each["service"]): each["answered_by"] for each in found["questions"]}
        assert results["red1", "10.0.0.2", "ping"] == "red2"
        assert results["blue1", "10.0.0.2", "ping"] == "blue2"
        assert results["blue1", "10.9.0.1", "ping"] is None
        assert {each["from"]: each["agrees"] for each in found["requests"]} == dict.fromkeys(CLIENTS, True)
        if CLIENTS:
            server = ("--server", found["server"], "--json")
            listed = heddle("vpc", "balancers", *server)["load_balancers"]
            assert [end["healthy"] for each in listed for end in each["backends"]] == [True] * 4
            explained = heddle("explain", "--vip", "blue/10.0.0.100:80", "--from", "10.0.1.3:40000", *server)
            assert explained["balancers"][0]["back_end"]["ip"] in ("10.0.0.1", "10.0.0.2")
        assert all(traces_of(lab).values())
        inside = run("exec", "--lab", lab, "red1", "ping", "-c", "1", "-W", "5", "10.0.0.2")
        assert " 0% packet loss" in inside.stdout, inside.stderr
        bridge = run("exec", "--lab", lab, "h2", "ovs-vsctl", "list-ports", "vpc")
        assert set(bridge.stdout.split()) == {"hxflow", "red2", "blue2", "green1"}
        assert run("exec", "--lab", lab, "red1", "sh", "-c", "exit 7").returncode == 7
        stranger = run("exec", "--lab", lab, "red7", "true")
        assert (stranger.returncode, "'red7' is no node" in stranger.stderr) == (2, True)
        assert end(process, signal.SIGINT) == 0
        assert traces_of(lab) == NOTHING
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_while_it_is_being_built_leaves_nothing(number):
    process = start("--once")
    try:
        owner = await_lab_of(process.pid)
        assert end(process, number) != 0
        assert traces_of(owner) == NOTHING
    finally:
        process.kill()
        process.communicate()


def await_lab_of(pid: int) -> str:
    """Return the id of the lab that a process creates, once its directory exists."""
    for _ in range(TIMEOUT_S * 20):
        for path in lab_directories():
            try:
                if json.loads((path / "owner.json").read_text())["pid"] == pid:
                    return path.name
            except (OSError, ValueError):
                continue
        select.select([], [], [], 0.05)
    raise AssertionError("no lab came")


def test_what_a_killed_lab_left_is_cleared_by_the_next_start(own_registry):
    process = start("--json", "--vtep", "kernel")
    try:
        lab = ready_line(process)["lab"]
        process.kill()
        process.communicate()
        assert traces_of(lab)["processes"]
        clear_dead_labs()
        assert traces_of(lab) == NOTHING
    finally:
        process.kill()
        process.communicate()


def test_bad_options_are_one_line_and_build_nothing():
    refused = run("vpc", "--vtep", "tap")
    assert refused.returncode == 2
    assert refused.stderr == "heddle: --vtep: 'tap' is none of kernel, ovs, mixed\n"


def test_exec_without_a_lab_is_refused():
    refused = run("exec", "--lab", "zzzz", "red1", "true")
    assert refused.returncode != 0
    assert refused.stderr == "heddle: no lab zzzz runs here\n"
