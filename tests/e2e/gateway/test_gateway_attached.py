"""A gateway programmed by a controller: it forwards by the applied network, also after a restart."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.packets.veth_ports import Wires
from tests.support.processes.gateway_process import HEDDLE, HOST, NETWORK, READY_S, Running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
FABRIC = {
    "version": 1,
    "name": "small",
    "generate": {"kind": "spine_leaf", "spines": 1, "leaves": 2, "hosts_per_leaf": 1},
}


class Attached:
    """A controller and its clients in the network namespace of the gateway."""

    def __init__(self, wires: Wires, folder: Path) -> None:
        self._inside = ["nsenter", "-t", str(wires.near.pid), "-n", *HEDDLE]
        fabric = folder / "fabric.yaml"
        fabric.write_text(yaml.safe_dump(FABRIC))
        config = folder / "controller.yaml"
        config.write_text(yaml.safe_dump({"vteps": [f"{HOST}/32"]}))
        command = [*self._inside, "run", str(fabric), "--config", str(config), "--openflow", "127.0.0.1:0",
                   "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]  # fmt: skip
        with (folder / "controller").open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        self.address = json.loads(self.process.stdout.readline())["grpc"]

    def heddle(self, *arguments: str) -> Any:
        command = [*self._inside, *arguments, "--server", self.address, "--json"]
        said = subprocess.run(command, text=True, capture_output=True, timeout=READY_S)
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def wires() -> Iterator[Wires]:
    wires = Wires()
    wires.near.run("ip", "link", "set", "lo", "up")
    yield wires
    wires.close()


@pytest.fixture
def attached(wires: Wires, tmp_path: Path) -> Iterator[Attached]:
    running = Attached(wires, tmp_path)
    yield running
    running.close()


def test_an_applied_network_is_served_and_again_after_a_restart(
    wires: Wires, attached: Attached, tmp_path: Path
) -> None:
    network = tmp_path / "tenants.yaml"
    network.write_text(yaml.safe_dump(NETWORK))
    for life in range(2):
        gateway = Running(wires, tmp_path, "auto", more={"controller": attached.address})
        try:
            if life == 0:
                attached.heddle("vpc", "apply", str(network))
            gateway.forwards()
            (known,) = attached.heddle("vpc", "gateways")["gateways"]
            assert known["hello"]["gateway_id"] == gateway.id
            if life == 1:
                assert gateway.stop() == 0
        finally:
            gateway.process.kill()
            gateway.close()
