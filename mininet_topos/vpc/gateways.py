"""Gateways of the VPC lab: configuration files and processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.json_format import MessageToDict

from heddle.dataplane.config.network import NetworkConfig
from heddle.dataplane.config.wire import border_to, peering_to, vpc_to
from heddle.foundation.address import mac_text
from heddle.mininet_topos.vpc.description import (
    ATTACHMENTS,
    GATEWAYS,
    HOSTS,
    INTERNET_ROUTER,
    MANAGEMENT_SERVER,
    PARTNER_ADDRESS,
    PROVIDER,
    STORAGE_SERVER,
    UNDERLAY,
    UNDERLAY_MTU_BYTES,
    WAN,
    WAN_MTU_BYTES,
)
from heddle.mininet_topos.vpc.net import VpcNet
from heddle.mininet_topos.vpc.processes import NodeProcess

WAN_ADDRESS = {"gw1": "203.0.113.2", "gw2": "203.0.113.3"}
PARTNER_PORT = 4790
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
    """Return a network file for `heddle gateway --network` as a mapping."""

    def plain(message: Any) -> dict[str, Any]:
        found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
        return found

    return {
        "vpcs": [plain(vpc_to(vpc)) for vpc in network.vpcs],
        "peerings": [plain(peering_to(peering)) for peering in sorted(network.peerings)],
        "border": plain(border_to(network.border)).get("rules", []),
    }


def partner_config(gateway: str, *, mode: str = "active-standby") -> dict[str, Any]:
    """Return a gateway's `partner` key; heartbeats and copies use a dedicated segment."""
    (other,) = GATEWAYS.keys() - {gateway}
    here, there = (f"{PARTNER_ADDRESS[name]}:{PARTNER_PORT}" for name in (gateway, other))
    taken = {"underlay": GATEWAYS[other], "wan": WAN_ADDRESS[other], "provider": PROVIDER_ADDRESS[other]}
    return {
        "partner_id": other, "mode": mode, "paths": [{"listen": here, "partner": there}],
        "takes_over": [{"interface": name, "address": str(address)} for name, address in taken.items()],
    }  # fmt: skip


def controller_fabric() -> dict[str, Any]:
    """Return the fabric file of the lab's controller; its NICs are the hosts' VTEPs."""
    nics = [
        {"id": host, "nics": [{"id": f"{host}-n0", "ip": str(vtep), "port": f"leaf1:{number}", "gbps": 1}]}
        for number, (host, vtep) in enumerate(HOSTS.items(), 2)
    ]
    return {
        "version": 1, "name": "vpc-lab", "hosts": nics,
        "switches": [{"id": "spine1", "role": "spine"}, {"id": "leaf1", "role": "leaf"}],
        "links": [{"a": "leaf1:1", "b": "spine1:1", "gbps": 1}],
    }  # fmt: skip


def gateway_process(net: VpcNet, environment: Mapping[str, str], config: Path, network: Path | None) -> NodeProcess:
    """Start `heddle gateway` in its node; `network` None if the configuration names a controller."""
    name = str(yaml.safe_load(config.read_text())["gateway_id"])
    words = ["gateway", "--config", str(config), *(("--network", str(network)) if network is not None else ())]
    return NodeProcess(f"gateway {name}", net.host(name).entrance, words, environment, config.with_suffix(".log"))


def write_yaml(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a YAML file; return its path."""
    path.write_text(yaml.safe_dump(dict(content)))
    return path
