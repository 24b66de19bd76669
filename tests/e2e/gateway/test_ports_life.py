"""How real ports are opened and refused, how they end, and that nothing of them outlives their process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from heddle.dataplane.io.af_xdp import bpf
from heddle.dataplane.io.fault import BpfError, PortError
from heddle.dataplane.io.interface import SENDING, read_interface, switch_off_offloads
from heddle.dataplane.io.opening import Backend, open_ports
from heddle.dataplane.io.settings import PortSettings
from heddle.mininet_topos.host.namespace import network_namespace
from tests.support.packets.nic_pair import wait_for
from tests.support.packets.veth_ports import Gateway, Wires, frame_of, gateway_on

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[3]
BACKENDS = pytest.mark.parametrize("backend", [Backend.AF_XDP, Backend.AF_PACKET])
CHILD = """
import sys
from heddle.dataplane.io.fault import PortError
from heddle.dataplane.io.opening import Backend, open_ports
from heddle.dataplane.io.settings import PortSettings
try:
    wanted = [PortSettings(interface=name) for name in sys.argv[2:]]
    ports = open_ports(wanted, backend=Backend(sys.argv[1]), notify=lambda line: print("notice:", line, flush=True))
except PortError as fault:
    sys.exit(f"fault: {fault}")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def wires():
    wires = Wires()
    yield wires
    wires.close()


def child(wires, backend, *before: str) -> subprocess.Popen:
    """Start a process with ports in the near namespace; `before` is put in front of its command."""
    inside = ["nsenter", "-t", str(wires.near.pid), "-n", *before, sys.executable, "-c", CHILD, backend, *wires.names]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        inside, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def programs_on(wires, name: str) -> bool:
    """Return whether the interface has an XDP program (by `ip`) or a packet socket (by /proc)."""
    link = json.loads(wires.near.run("ip", "-json", "-details", "link", "show", "dev", name))[0]
    sockets = wires.near.run("cat", "/proc/self/net/packet").splitlines()[1:]
    return "xdp" in link or bool(sockets)


@BACKENDS
def test_nothing_is_left_behind_by_a_process_that_is_killed(wires, backend):
    wires.near.run("ip", "addr", "add", "10.8.0.2/24", "dev", "g0")
    wires.far.run("ip", "addr", "add", "10.8.0.1/24", "dev", "f0")
    wires.wait_until_up()
    before = wires.near.run("ip", "-details", "addr")
    process = child(wires, backend)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert programs_on(wires, "g0")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not programs_on(wires, "g0"))
    wait_for(lambda: wires.near.run("ip", "-details", "addr") == before)
    assert "1 received" in wires.far.run("ping", "-c", "1", "-W", "5", "10.8.0.2")
    with gateway_on(wires, backend) as gateway:
        wires.send(0, frame_of(64))
        wait_for(lambda: gateway.forward(1, -1) == 1)


def any_arrived(wires, arrived: list[bytes]) -> bool:
    arrived += wires.arrived(1)
    return bool(arrived)


@BACKENDS
def test_ports_can_be_closed_and_opened_again_at_once(wires, backend):
    for turn in range(5):
        with gateway_on(wires, backend) as gateway:
            wires.send(0, frame_of(64, turn))
            wait_for(partial(gateway.forward, 1, -1))
        arrived: list[bytes] = []
        wait_for(partial(any_arrived, wires, arrived))
        assert arrived == [frame_of(64, turn)]
    assert not programs_on(wires, "g0")


def test_af_xdp_is_chosen_if_available(wires):
    with gateway_on(wires, Backend.AUTO) as gateway:
        assert gateway.notices == []
        assert gateway.ports.queues.size == 2


@contextmanager
def af_xdp_in_use(wires: Wires) -> Iterator[None]:
    """Have a program on all queues of the interfaces that is no gateway: it names them, and so claims no interface."""
    other = Gateway(wires, Backend.AF_XDP, settings=[PortSettings(interface=name, queues=(0,)) for name in wires.names])
    try:
        yield
    finally:
        other.close()


def test_af_packet_is_used_with_a_notice_if_af_xdp_is_in_use(wires):
    with af_xdp_in_use(wires), gateway_on(wires, Backend.AUTO) as second:
        assert second.notices == [
            "no AF_XDP on g0: another XDP program or AF_XDP socket has it; "
            "using AF_PACKET rings, at about two thirds of the speed"
        ]


def test_requested_af_xdp_that_is_in_use_is_refused(wires):
    with af_xdp_in_use(wires), pytest.raises(PortError, match="g0: another XDP program"):
        Gateway(wires, Backend.AF_XDP)


@pytest.mark.parametrize("backend", [Backend.AF_XDP, Backend.AF_PACKET])
def test_an_interface_has_one_gateway_and_is_free_once_that_one_is_closed(wires, backend):
    with gateway_on(wires, backend), pytest.raises(PortError, match="g0: another gateway on this host"):
        Gateway(wires, Backend.AF_PACKET)
    Gateway(wires, backend).close()


def test_af_packet_is_used_with_notices_without_bpf_privilege(wires):
    keep = "-all,+net_raw,+ipc_lock"
    process = child(wires, "auto", "setpriv", f"--bounding-set={keep}", f"--inh-caps={keep}")
    lines = process.communicate("")[0].splitlines()
    assert lines[-1] == "ready"
    assert "notice: no AF_XDP on g0: no CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; using AF_PACKET rings" in lines[2]
    assert all("Linux receives these frames as well (no CAP_BPF)" in line for line in lines[3:5])


def test_a_missing_packet_socket_privilege_is_one_line(wires):
    process = child(wires, "auto", "setpriv", "--bounding-set=-all", "--inh-caps=-all")
    said, fault = process.communicate("")
    assert process.returncode == 1
    assert fault == "fault: packet sockets need CAP_NET_RAW: run as root or give the process that capability\n"
    assert "ready" not in said


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ([], "no interface is given"),
        ([PortSettings(interface="g7")], "g7: there is no such interface in this network namespace"),
        ([PortSettings(interface="lo")], "lo: an MTU of 65536; frames of up to 9216 bytes"),
        ([PortSettings(interface="g0", queues=(3,))], "g0: queue 3 of 1"),
    ],
)
def test_an_invalid_port_is_refused_in_one_line(wires, settings, line):
    wires.near.run("ip", "link", "set", "lo", "up")
    with network_namespace(wires.near.pid), pytest.raises(PortError, match=line):
        open_ports(settings, notify=lambda _line: None)


@BACKENDS
def test_an_interface_that_is_down_is_refused(wires, backend):
    wires.near.run("ip", "link", "set", "g1", "down")
    with pytest.raises(PortError, match="g1 is down; `ip link set g1 up`"):
        Gateway(wires, backend)
    assert not programs_on(wires, "g0")


def test_offloads_are_switched_off(wires):
    with network_namespace(wires.far.pid):
        assert switch_off_offloads("f0", SENDING) == ()
    features = wires.far.run("ethtool", "-k", "f0")
    for feature in ("tx-checksumming", "tx-tcp-segmentation", "generic-segmentation-offload", "tx-vlan-offload"):
        assert f"{feature}: off" in features
    with gateway_on(wires, Backend.AF_XDP):
        assert "generic-receive-offload: off" in wires.near.run("ethtool", "-k", "g0")


def test_an_interface_is_described(wires):
    wires.near.run("ip", "link", "set", "g1", "mtu", "4200", "down")
    with network_namespace(wires.near.pid):
        first, second = read_interface("g0"), read_interface("g1")
    assert (first.mtu_bytes, first.up, first.queues, first.frame_bytes) == (1500, True, 1, 1522)
    assert (second.mtu_bytes, second.up) == (4200, False)


def test_a_program_that_the_verifier_refuses_is_reported_with_its_reason():
    with pytest.raises(BpfError) as refused:
        bpf.load_program("bad", bpf._instruction(0x95), kind=bpf.BPF_PROG_TYPE_XDP)
    assert "R0" in refused.value.verdict
