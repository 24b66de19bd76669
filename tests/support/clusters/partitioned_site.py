"""Three controllers and an etcd of three, each in a network namespace, under load while some are cut off from others.

Runs as a program in a namespace of its own, which has the bridge, the switches and the callers:
`unshare --net -- python -m tests.support.clusters.partitioned_site FOLDER CUT_S FAULT,…`. It prints figures, and raises
where something is lost.
"""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from heddle.controller.config import load_fabric
from tests.support.clusters.cluster import ControllerCluster
from tests.support.clusters.cluster_clients import ClusterClient, wait_for_write
from tests.support.clusters.etcd import QUICK_ELECTIONS, EtcdCluster, Host, etcd
from tests.support.clusters.linearizable import Kind, violated
from tests.support.clusters.shared_switches import SharedSwitches, shared_switches
from tests.support.packets.namespaces import Namespace

LEADER, LEADER_FROM_ETCD, MEMBER, LEADING_MEMBER = "leader", "leader from etcd", "etcd", "leading etcd"
FABRIC = "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, gbps: 100}\n"
CLIENTS = 3
COUNT = 3
BRIDGE = "br0"
HERE = "10.99.0.254/24"


class Island:
    """A namespace on the bridge with one address, which can be cut off."""

    def __init__(self, name: str, number: int) -> None:
        self.space = Namespace()
        self.host = Host(f"10.99.0.{number}", self.space.entrance)
        self._port = f"to-{name}"
        run("ip", "link", "add", self._port, "type", "veth", "peer", "name", "eth0", "netns", str(self.space.pid))
        run("ip", "link", "set", self._port, "master", BRIDGE, "up")
        self.space.run("ip", "addr", "add", f"{self.host.address}/24", "dev", "eth0")
        self.space.run("ip", "link", "set", "eth0", "up")

    def cut(self) -> None:
        """Take its cable away."""
        run("ip", "link", "set", self._port, "down")

    def cut_from(self, others: list["Island"]) -> None:
        """Drop every packet from and to others, silently."""
        far = ", ".join(other.host.address for other in others)
        self.space.run(
            "nft", "-f", "-",
            given=f"table ip cut {{ set far {{ type ipv4_addr; elements = {{ {far} }}; }}\n"
            "chain in { type filter hook input priority 0; ip saddr @far drop; }\n"
            "chain out { type filter hook output priority 0; ip daddr @far drop; }\n}\n",
        )  # fmt: skip

    def join(self) -> None:
        """Connect it with all again."""
        run("ip", "link", "set", self._port, "up")
        self.space.run("nft", "delete", "table", "ip", "cut", check=False)


class Site:
    """All parts, and the faults."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", HERE, "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        self.controllers = [Island(f"c{number}", 11 + number) for number in range(COUNT)]
        self.members = [Island(f"e{number}", 21 + number) for number in range(COUNT)]
        for island in self.controllers + self.members:
            stack.callback(island.space.close)
        file = folder / "fabric.yaml"
        file.write_text(FABRIC)
        hosts = [island.host for island in self.members]
        self.etcd: EtcdCluster = stack.enter_context(
            etcd(folder / "etcd", members=COUNT, options=QUICK_ELECTIONS, hosts=hosts)
        )
        hosts = [island.host for island in self.controllers]
        self.cluster = stack.enter_context(ControllerCluster(folder, file, self.etcd, hosts=hosts))
        self.cluster.leader()
        openflow = [member.openflow for member in self.cluster.members]
        self.switches: SharedSwitches = stack.enter_context(shared_switches(load_fabric(file), openflow))

    def inject(self, fault: str, clients: list[ClusterClient], cut_s: float) -> float:
        """Cut, wait until a write that was called later is acknowledged, and join; return how long the write took."""
        leader = self.controllers[self.cluster.members.index(self.cluster.leader())]
        if fault == LEADER:
            leader.cut()
        elif fault == LEADER_FROM_ETCD:
            leader.cut_from(self.members)
        else:
            number = self.etcd.leader()
            self.members[number if fault == LEADING_MEMBER else (number + 1) % COUNT].cut()
        began_s = time.monotonic()  # now, because the commands above take as long as many a write
        took_s = wait_for_write(clients, began_s)
        time.sleep(max(0.0, began_s + cut_s - time.monotonic()))
        for island in self.controllers + self.members:
            island.join()
        self.etcd.wait_for_leader()
        print(f"{fault} cut off: the next write after {took_s:.2f} s", flush=True)
        return took_s


def main(folder: Path, cut_s: float, faults: list[str]) -> None:
    """Cause the faults, and check the history of calls and what switches have accepted."""
    clients: list[ClusterClient] = []
    with ExitStack() as stack:
        site = Site(folder, stack)
        addresses = site.cluster.addresses
        clients += [ClusterClient(number, len(faults), addresses) for number in range(CLIENTS)]
        for client in clients:
            stack.callback(client.end)
        wait_for_write(clients, time.monotonic())
        took = sorted(site.inject(fault, clients, cut_s) for fault in faults)
        for client in clients:
            client.end()
            assert not client.faults, client.faults
        history = [call for client in clients for call in client.history]
        writes = sum(call.kind is not Kind.READ and call.returned_s < 1e300 for call in history)
        accepted, of_old, refused = site.switches.read(
            lambda: tuple(
                sum(getattr(switch, what) for switch in site.switches.all)
                for what in ("accepted", "accepted_of_old", "refused_of_old")
            )
        )
        print(f"{len(faults)} faults, {len(history)} calls, {writes} writes acknowledged; longest: {took[-1]:.2f} s; "
              f"switches accepted {accepted} changes, {of_old} of an old leader, and refused {refused}")  # fmt: skip
        assert violated(history) == []
        assert accepted > 0
        assert of_old == 0


def run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=60)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3].split(","))
