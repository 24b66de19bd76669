"""`heddle check fabric` on a lab of routers: fit as built, then with a leaf that hashes addresses, then equal seeds."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.address import ip_text
from heddle.mininet_topos.host.namespace import network_namespace
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.routed.net import SEED
from heddle.mininet_topos.routed.routes import Routing

pytestmark = pytest.mark.e2e
SHAPE = "{kind: clos3, pods: 2, aggs_per_pod: 2, spines: 4, leaves: 1, hosts_per_leaf: 1, gbps: 0.02}"
POLICY = "fib_multipath_hash_policy"


def checked(directory: Path, *options: str) -> tuple[int, dict[str, Any]]:
    words = (
        sys.executable,
        "-m",
        "heddle.programs.console.main",
        "check",
        "fabric",
        str(directory),
        "--json",
        *options,
    )
    done = subprocess.run((*words, "--rate", "1000"), capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, {leaf["leaf"]: leaf for leaf in json.loads(done.stdout)["leaves"]}


def written(lab: RoutedLab, directory: Path) -> None:
    named = {str(port): ip_text(address) for port, address in lab.routers.routes.address_of.items()}
    (directory / "addresses.json").write_text(json.dumps(named))
    (directory / "nodes.json").write_text(json.dumps({node.name: node.pid for node in lab.net.mininet.hosts}))


def set_routers(lab: RoutedLab, switches: Iterable[str], name: str, value: int) -> None:
    for switch in switches:
        with network_namespace(lab.net.host(switch).pid):
            Path(f"/proc/sys/net/ipv4/{name}").write_text(str(value))


def kinds(leaf: dict[str, Any]) -> list[str]:
    return [finding["kind"] for finding in leaf["findings"]]


def test_a_lab_of_routers_is_fit_until_a_leaf_hashes_addresses_or_tiers_hash_alike(tmp_path):
    (tmp_path / "fabric.yaml").write_text(f"version: 1\ngenerate: {SHAPE}\n")
    fabric = load_fabric(tmp_path / "fabric.yaml")
    near, far = fabric.leaves
    with RoutedLab(fabric, routing=Routing.ROUTE) as lab:
        written(lab, tmp_path)
        status, leaves = checked(tmp_path)
        assert status == 0, leaves
        for leaf in leaves.values():
            assert (leaf["ports_matter"], leaf["repeats_agree"]) == ("yes", "yes")
            assert (leaf["qpn_hashed"], leaf["dscp_hashed"]) == ("no", "no")
            assert [len(hop["seen"]) for hop in leaf["hops"]] == [2, 4, 4, 2]
            assert kinds(leaf) == []

        set_routers(lab, [near], POLICY, 0)
        status, leaves = checked(tmp_path)
        assert status == 1
        assert kinds(leaves[near]) == ["hash_without_ports"]
        assert leaves[far]["fit"]
        assert checked(tmp_path, "--nic", fabric.nics_of_leaf[far][0].id)[0] == 0

        set_routers(lab, [near], POLICY, 1)
        set_routers(lab, [switch.id for switch in fabric.switches], SEED, 4711)
        status, leaves = checked(tmp_path)
        assert status == 0
        assert {tuple(kinds(leaf)) for leaf in leaves.values()} == {("polarised",)}
