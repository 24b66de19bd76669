"""`heddle gateway` on veth pairs: forwarding, reload without packet loss, restart after a crash, and shutdown."""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import Ether

from heddle.mininet_topos.host.namespace import network_namespace
from tests.support.packets.veth_ports import Wires
from tests.support.processes.gateway_process import (
    GATEWAY_MACS,
    HEDDLE,
    NETWORK,
    PATIENCE_S,
    READY_S,
    ROUTER,
    ROUTER_MAC,
    Running,
)

MAX_STOP_S = 0.5
"""Ten times the promised value."""
UNDISTURBED_TRIES = 4
"""Of one that a stall of the whole machine would make late."""
UNDER_WAY = 500
"""Packets that may be in the gateway at once: far fewer than its rings hold, so that none finds them full."""
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
BACKENDS = ["af-xdp", "af-packet"]


@pytest.fixture
def wires() -> Iterator[Wires]:
    wires = Wires()
    yield wires
    wires.close()


@pytest.fixture(params=BACKENDS)
def own_gateway(request: pytest.FixtureRequest, wires: Wires, tmp_path: Path) -> Iterator[Running]:
    running = Running(wires, tmp_path, request.param)
    yield running
    running.close()


@pytest.fixture(scope="module", params=BACKENDS)
def shared_gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway for all tests after which it serves as before; it then ends with status 0."""
    wires = Wires()
    running = Running(wires, tmp_path_factory.mktemp("shared"), request.param)
    yield running
    try:
        assert running.stop() == 0
    finally:
        running.close()
        wires.close()


@pytest.fixture
def gateway(shared_gateway: Running) -> Iterator[Running]:
    """The shared gateway, which serves its first network, and forwards before and after the test."""
    shared_gateway.forwards()
    yield shared_gateway
    shared_gateway.serve(NETWORK)
    before = reloads(shared_gateway)
    shared_gateway.process.send_signal(signal.SIGHUP)
    shared_gateway.until(lambda: reloads(shared_gateway) > before)
    shared_gateway.forwards()


def test_it_forwards_counts_and_ends(own_gateway: Running) -> None:
    gateway = own_gateway
    assert gateway.ready["ready"] is True
    gateway.forwards()
    for number in range(500):
        gateway.send(number)
    seen: list[int] = []
    gateway.until(lambda: len(seen_by(gateway, seen)) >= 500)
    assert seen == list(range(500))
    gateway.until(gateway.at_rest)
    found = json.loads(gateway.show("--json"))
    assert "connections: 1 of 16,384" in gateway.show()
    assert found["tables"]["connections"]["used"] == 1
    assert not set(found["drops"]) - {"no_neighbour"}
    assert gateway.stop() == 0
    assert "ended" not in gateway.log_text()
    assert is_gone(found["pid"])


def seen_by(gateway: Running, seen: list[int]) -> list[int]:
    seen += gateway.arrived()
    return seen


def reloads(gateway: Running) -> int:
    return gateway.log_text().count("is served as read anew")


def test_a_reload_under_traffic_loses_nothing(gateway: Running) -> None:
    sent, stop = [0], threading.Event()
    seen: list[int] = []

    def keep_sending() -> None:
        while not stop.is_set():
            if sent[0] - len(seen) >= UNDER_WAY:
                time.sleep(0.001)
                continue
            sent[0] += 1
            gateway.send(sent[0])

    def passes_until_reread(times: int) -> bool:
        seen_by(gateway, seen)
        return reloads(gateway) >= times

    before = reloads(gateway)
    thread = threading.Thread(target=keep_sending)
    thread.start()
    try:
        for reload in range(1, 6):
            vpc = {**NETWORK["vpcs"][0], "security_rules": [{"allow": True, "direction": "out", "protocol": "any",
                   "remote_cidr": f"203.0.{reload}.0/24"}]}  # fmt: skip
            gateway.serve({"vpcs": [vpc]})
            gateway.process.send_signal(signal.SIGHUP)
            gateway.until(partial(passes_until_reread, before + reload))
    finally:
        stop.set()
        thread.join()
    gateway.until(lambda: len(seen_by(gateway, seen)) >= sent[0])
    assert seen == list(range(1, sent[0] + 1))


def test_an_invalid_network_file_changes_nothing(gateway: Running) -> None:
    gateway.serve({"vpcs": [{**NETWORK["vpcs"][0], "vni": 0}]})
    gateway.process.send_signal(signal.SIGHUP)
    gateway.until(lambda: "what was served before goes on" in gateway.log_text())
    assert "vni: 0 is not within" in gateway.log_text()
    gateway.forwards()


def test_a_killed_data_process_is_restarted_and_the_counters_agree(gateway: Running) -> None:
    old, restarts = gateway.status()["pid"], gateway.status()["restarts"]
    os.kill(old, signal.SIGKILL)
    gateway.until(lambda: gateway.status()["pid"] not in (0, old) and gateway.status()["generation_in_use"] > 0)
    gateway.forwards()
    assert gateway.status()["restarts"] == restarts + 1
    gateway.until(gateway.at_rest)
    assert gateway.log_text().count("the data process was ended by SIGKILL; restarting in") == 1


def test_when_the_control_process_is_killed_nothing_is_left(own_gateway: Running) -> None:
    gateway = own_gateway
    pid = gateway.status()["pid"]
    gateway.process.kill()
    gateway.process.wait(60)
    deadline = time.monotonic() + PATIENCE_S
    while not is_gone(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_replies_to_ping_and_exports_metrics(gateway: Running) -> None:
    gateway.wires.near.run("ip", "link", "set", "lo", "up")
    with network_namespace(gateway.wires.near.pid):
        page = urllib.request.urlopen(f"http://{gateway.ready['metrics']}/metrics", timeout=60).read().decode()
    assert 'heddle_gateway_received_packets_total{port="g0"}' in page
    ping = Ether(src=ROUTER_MAC, dst=GATEWAY_MACS[1]) / IP(src=ROUTER, dst="198.51.100.1") / ICMP(id=7, seq=1)
    gateway.wires.send(1, bytes(ping))

    def replied() -> bool:
        gateway.poll()
        return any(ICMP in Ether(frame) and Ether(frame)[ICMP].type == 0 for frame in gateway.held[1])

    gateway.until(replied)


def test_a_data_process_ends_soon_after_sigterm(gateway: Running) -> None:
    took: list[float] = []
    while not took or (took[-1] > MAX_STOP_S and len(took) < UNDISTURBED_TRIES):
        gateway.forwards()
        pid = gateway.status()["pid"]
        since = time.monotonic()
        os.kill(pid, signal.SIGTERM)
        gateway.until(partial(is_gone, pid))
        took.append(time.monotonic() - since)
        gateway.until(partial(came_back, gateway, len(took)))
    assert took[-1] <= MAX_STOP_S, "it should take 50 ms at most"
    gateway.forwards()


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, even if its adoptive parent has not reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def came_back(gateway: Running, times: int) -> bool:
    return gateway.log_text().count("the data process ended with status 0; restarting in") == times


NO_BPF = ("--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-all")
RAW_ALONE = ("--bounding-set=-all,+net_raw", "--inh-caps=-all")


@pytest.mark.parametrize(
    ("kept", "notices"),
    [
        (NO_BPF, ["CAP_BPF; using AF_PACKET rings"]),
        (RAW_ALONE, ["no AF_XDP on g0: ", "using AF_PACKET rings", "(no CAP_BPF)"]),  # and other missing privileges
    ],
    ids=["without CAP_BPF", "with CAP_NET_RAW alone"],
)
def test_without_af_xdp_it_falls_back_with_a_notice_and_forwards(
    wires: Wires, tmp_path: Path, kept: tuple[str, ...], notices: list[str]
) -> None:
    gateway = Running(wires, tmp_path, "auto", under=("setpriv", *kept))
    try:
        assert gateway.ready["backend"] == "af-packet"
        gateway.forwards()
        for notice in notices:
            assert any(notice in line for line in gateway.log_text().splitlines()), gateway.log_text()
        assert any("AF_PACKET" in notice for notice in gateway.status()["notices"])
        assert gateway.stop() == 0
    finally:
        gateway.close()


def test_unavailable_af_xdp_is_refused_in_one_line(wires: Wires, tmp_path: Path) -> None:
    gateway = {
        "gateway_id": "gw-none", "runtime_dir": str(tmp_path), "backend": "af-xdp",
        "interfaces": [{"name": "g0", "side": "underlay", "address": "192.0.2.1"}],
    }  # fmt: skip
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(gateway))
    inside = ("nsenter", "-t", str(wires.near.pid), "-n", "setpriv", *NO_BPF)
    said = subprocess.run(
        [*inside, *HEDDLE, "gateway", "--config", str(tmp_path / "gateway.yaml")],
        text=True, capture_output=True, timeout=READY_S,
    )  # fmt: skip
    assert (said.returncode, said.stdout) == (1, "")
    assert [line for line in said.stderr.splitlines() if "being compiled" not in line] == said.stderr.splitlines()[-1:]
    assert "no AF_XDP on g0: no CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF" in said.stderr


def test_missing_privileges_are_reported_in_one_line(wires: Wires, tmp_path: Path) -> None:
    config = {
        "gateway_id": "gw-none", "runtime_dir": str(tmp_path),
        "interfaces": [{"name": "g0", "side": "underlay", "address": "192.0.2.1"}],
    }  # fmt: skip
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(config))
    inside = ("nsenter", "-t", str(wires.near.pid), "-n", "setpriv", "--bounding-set=-all", "--inh-caps=-all")
    said = subprocess.run(
        [*inside, *HEDDLE, "gateway", "--config", str(tmp_path / "gateway.yaml")],
        text=True, capture_output=True, timeout=READY_S,
    )  # fmt: skip
    assert (said.returncode, said.stdout) == (1, "")
    assert [line for line in said.stderr.splitlines() if "not ready yet" not in line] == said.stderr.splitlines()[-1:]
    assert "CAP_NET_RAW" in said.stderr


@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        ({"interfaces": [{"name": "absent0", "side": "underlay", "address": "192.0.2.1"}]}, 2, "absent0"),
        ({"interfaces": [{"name": "absent0", "side": "underlay", "address": "192.0.2.1", "mac": GATEWAY_MACS[0]}]},
         1, "absent0"),
        ({"backnd": "auto"}, 2, "backnd: unknown key, did you mean backend?"),
    ],
)  # fmt: skip
def test_an_invalid_start_is_refused_in_one_line(tmp_path: Path, change: dict, status: int, why: str) -> None:
    config = {
        "gateway_id": "gw-none", "runtime_dir": str(tmp_path),
        "interfaces": [{"name": "lo", "side": "underlay", "address": "192.0.2.1", "mac": GATEWAY_MACS[0]}], **change,
    }  # fmt: skip
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(config))
    said = subprocess.run(
        ["unshare", "--net", *HEDDLE, "gateway", "--config", str(tmp_path / "gateway.yaml")],
        text=True, capture_output=True, timeout=READY_S,
    )  # fmt: skip
    assert (said.returncode, said.stdout) == (status, "")
    assert len(said.stderr.splitlines()) == 1
    assert why in said.stderr
