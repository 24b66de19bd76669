"""What a gateway cannot run with on this host is one line that names the key and the remedy."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.packets.veth_ports import Wires
from tests.support.processes.gateway_process import GATEWAY_MACS, HEDDLE, READY_S, Running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wires() -> Iterator[Wires]:
    wires = Wires()
    yield wires
    wires.close()


def refusal(wires: Wires, folder: Path, **more: Any) -> str:
    """Start a gateway on the first wire; return the one line on its standard error."""
    (folder / "network.yaml").write_text("vpcs: []")
    underlay = {"name": wires.names[0], "side": "underlay", "mac": GATEWAY_MACS[0], "address": "192.0.2.1"}
    config = {"gateway_id": "gw9", "runtime_dir": str(folder), "interfaces": [{**underlay, **more.pop("underlay", {})}]}
    (folder / "gw9.yaml").write_text(yaml.safe_dump({**config, **more}))
    inside = ("nsenter", "-t", str(wires.near.pid), "-n")
    options = ("--config", str(folder / "gw9.yaml"), "--network", str(folder / "network.yaml"))
    done = subprocess.run(
        [*inside, *HEDDLE, "gateway", *options], capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    return line.removeprefix("heddle: gateway gw9: ")


def test_an_mtu_above_the_devices_is_refused(wires: Wires, tmp_path: Path) -> None:
    assert refusal(wires, tmp_path, underlay={"mtu_bytes": 9000}) == (
        "g0: mtu_bytes: 9000 is above the device's MTU of 1500; lower it, or `ip link set g0 mtu 9000`"
    )


def test_a_core_that_the_host_lacks_is_refused(wires: Wires, tmp_path: Path) -> None:
    assert refusal(wires, tmp_path, cpu=4095).startswith(
        "cpu: this host has no core 4095 for this process; it may use "
    )


def test_a_runtime_directory_that_cannot_be_made_is_named(wires: Wires, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file" / "run"
    assert refusal(wires, tmp_path, runtime_dir=str(directory)) == f"runtime_dir: {directory}: Not a directory"
    long = tmp_path / ("d" * 100)
    assert refusal(wires, tmp_path, runtime_dir=str(long)).endswith(" has more than 107 bytes; name a shorter one")


@pytest.mark.parametrize("backend", ["af-xdp", "af-packet"])
def test_a_second_gateway_on_an_interface_is_refused_and_the_first_one_forwards(
    wires: Wires, tmp_path: Path, backend: str
) -> None:
    first = Running(wires, tmp_path, backend)
    try:
        (tmp_path / "second").mkdir()
        assert refusal(wires, tmp_path / "second", backend="af-packet") == (
            "g0: another gateway on this host receives its frames; end that one or name another interface"
        )
        first.forwards()
    finally:
        first.close()
