"""Gateways of the lab: their config files, their processes, and what a host is told of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.json_format import MessageToDict

from controller.model.error import EnvironmentFault
from dataplane.config.addresses import mac_text
from dataplane.config.network import NetworkConfig
from dataplane.config.wire import border_to, peering_to, vpc_to
from mininet_topos.vpc.description import (
    ATTACHMENTS,
    GATEWAYS,
    INTERNET_ROUTER,
    MANAGEMENT_SERVER,
    PROVIDER,
    STORAGE_SERVER,
    UNDERLAY,
    UNDERLAY_MTU_BYTES,
    WAN,
    WAN_MTU_BYTES,
)
from mininet_topos.vpc.net import VpcNet

_MAIN = "from controller.cli.start import main; main()"
READY_S, STOP_S = 60.0, 10.0
WAN_ADDRESS = {"gw1": "203.0.113.2", "gw2": "203.0.113.3"}
PROVIDER_ADDRESS = {"gw1": "192.0.2.1", "gw2": "192.0.2.2"}


def gateway_config(gateway: str, directory: Path, **more: Any) -> dict[str, Any]:
    """Return a gateway's config file as a mapping; `more` replaces or adds keys."""
    macs = {each.device: each.mac for each in ATTACHMENTS if each.node == gateway and each.mac is not None}
    sides: Mapping[str, dict[str, Any]] = {
        "underlay": {"side": "underlay", "address": str(GATEWAYS[gateway]), "network": str(UNDERLAY),
                     "mtu_bytes": UNDERLAY_MTU_BYTES},
        "wan": {"side": "external", "address": WAN_ADDRESS[gateway], "network": str(WAN),
                "router": str(INTERNET_ROUTER), "mtu_bytes": WAN_MTU_BYTES},
        "customer": {"side": "customer"},
        "provider": {"side": "provider", "address": PROVIDER_ADDRESS[gateway], "network": str(PROVIDER)},
    }  # fmt: skip
    networks = [
        {"network": "storage", "prefixes": [f"{STORAGE_SERVER}/32"]},
        {"network": "management", "prefixes": [f"{MANAGEMENT_SERVER}/32"]},
    ]
    return {
        "gateway_id": gateway,
        "interfaces": [{"name": name, "mac": mac_text(mac), **sides[name]} for name, mac in macs.items()],
        "provider_networks": networks, "runtime_dir": str(directory), **more,
    }  # fmt: skip


def network_file(network: NetworkConfig) -> dict[str, Any]:
    """Return what `heddle gateway --network` reads."""

    def plain(message: Any) -> dict[str, Any]:
        found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
        return found

    return {
        "vpcs": [plain(vpc_to(vpc)) for vpc in network.vpcs],
        "peerings": [plain(peering_to(peering)) for peering in sorted(network.peerings)],
        "border": plain(border_to(network.border)).get("rules", []),
    }


class GatewayProcess:
    """A `heddle gateway` in its node; ends with the lab, or by `stop` and `kill`."""

    def __init__(self, net: VpcNet, environment: Mapping[str, str], config: Path, network: Path | None = None) -> None:
        """Start it, and wait until it forwards; raises EnvironmentFault with its last line."""
        self.config: dict[str, Any] = yaml.safe_load(config.read_text())
        self.name = str(self.config["gateway_id"])
        self._log = config.with_suffix(".log")
        words = [*net.host(self.name).entrance, sys.executable, "-c", _MAIN, "gateway"]
        words += ["--config", str(config), *(("--network", str(network)) if network is not None else ())]
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                words, env=dict(environment), stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        self.told = self._await_ready()

    @property
    def pid(self) -> int:
        """The control process: the data process is its child."""
        return self._child.pid

    def log(self) -> str:
        """Return what it logged."""
        return self._log.read_text()

    def stop(self) -> int:
        """End it in order; return its exit status."""
        self._child.terminate()
        return self._ended()

    def kill(self) -> None:
        """End both of its processes at once, as a power cut would."""
        for pid in (*_children(self._child.pid), self._child.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._ended()

    def _ended(self) -> int:
        assert self._child.stdout is not None
        self._child.stdout.close()
        return self._child.wait(STOP_S)

    def _await_ready(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        deadline = time.monotonic() + READY_S
        line = self._child.stdout.readline()
        if not line or time.monotonic() > deadline:
            self._ended()
            said = self.log().strip().splitlines() or ["it said nothing"]
            raise EnvironmentFault(f"gateway {self.name}: {said[-1]}")
        told: dict[str, Any] = json.loads(line)
        return told


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found + [grandchild for child in found for grandchild in _children(child)]


def write_yaml(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a config file and return its path."""
    path.write_text(yaml.safe_dump(dict(content)))
    return path
