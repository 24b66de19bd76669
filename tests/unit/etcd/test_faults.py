"""Three controllers over an etcd of three, under load, while members of either are killed and stopped.

What it measures goes to the test's output: `pytest -rA`.
"""

import random
import signal
import time

import pytest

from heddle.controller.config import load_fabric
from tests.support.clusters.cluster import ControllerCluster, ControllerProcess
from tests.support.clusters.cluster_clients import ClusterClient, wait_for_write
from tests.support.clusters.etcd import EtcdCluster
from tests.support.clusters.linearizable import Kind, violated
from tests.support.clusters.shared_switches import SharedSwitches, shared_switches

CLIENTS = 4
KINDS = ("kill leader", "stop leader", "kill etcd", "stop etcd", "stop leader, restart switch")
FAULTS = [
    pytest.param(("kill leader", "stop leader, restart switch", "kill etcd"), 3.0, id="short"),
    pytest.param(KINDS * 10, 10.0, id="50", marks=[pytest.mark.soak, pytest.mark.slow]),
]
FABRIC = "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, gbps: 100}\n"


class Site:
    """All parts, and the faults."""

    def __init__(self, etcd: EtcdCluster, cluster: ControllerCluster, switches: SharedSwitches, stopped_s: float):
        self.etcd, self.cluster, self.switches, self.stopped_s = etcd, cluster, switches, stopped_s
        self.drawn = random.Random(int(stopped_s))

    def inject(self, fault: str, clients: list[ClusterClient]) -> float:
        """Cause a fault, wait until a write that began later is acknowledged, and repair; return how long it took."""
        leader = self.cluster.leader()
        number = self.etcd.leader() if self.drawn.random() < 0.5 else self.drawn.randrange(3)
        began_s = time.monotonic()
        if fault == "kill leader":
            leader.kill()
        elif fault.startswith("stop leader"):
            leader.signal(signal.SIGSTOP)
        elif fault == "kill etcd":
            self.etcd.kill(number)
        else:
            self.etcd.pause(number)
        took_s = wait_for_write(clients, began_s)
        if fault.endswith("restart switch"):  # it forgets the generation, as Open vSwitch does
            self.switches.run(self.drawn.choice(self.switches.all).restart())
        time.sleep(max(0.0, began_s + self.stopped_s - time.monotonic()) if fault.startswith("stop") else 0.0)
        self.repair(fault, leader, number)
        print(f"{fault}: the next write after {took_s:.2f} s", flush=True)
        return took_s

    def repair(self, fault: str, leader: ControllerProcess, number: int) -> None:
        if fault == "kill leader":
            leader.start()
            leader.wait_until_ready()
        elif fault.startswith("stop leader"):
            leader.signal(signal.SIGCONT)
        elif fault == "kill etcd":
            self.etcd.start(number)
        else:
            self.etcd.resume(number)
        self.etcd.wait_for_leader()
        time.sleep(0.5)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("faults", "stopped_s"), FAULTS)
def test_no_acknowledged_write_is_lost_and_no_old_leader_changes_a_switch(tmp_path, three_etcds, faults, stopped_s):
    file = tmp_path / "fabric.yaml"
    file.write_text(FABRIC)
    cluster = ControllerCluster(tmp_path, file, three_etcds)
    clients: list[ClusterClient] = []
    try:
        cluster.leader()
        openflow = [member.openflow for member in cluster.members]
        with shared_switches(load_fabric(file), openflow) as switches:
            clients += [ClusterClient(number, len(faults), cluster.addresses) for number in range(CLIENTS)]
            site = Site(three_etcds, cluster, switches, stopped_s)
            wait_for_write(clients, time.monotonic())
            took = [(site.inject(fault, clients), fault) for fault in faults]
            for client in clients:
                client.end()
                assert not client.faults
            history = [call for client in clients for call in client.history]
            writes = sum(call.kind is not Kind.READ and call.returned_s < 1e300 for call in history)
            print(f"{len(history)} calls, {writes} writes acknowledged; longest: {max(took)}")
            assert violated(history) == []
            assert switches.read(lambda: sum(switch.accepted for switch in switches.all)) > 0
            assert switches.read(lambda: sum(switch.accepted_of_old for switch in switches.all)) == 0
    finally:
        for client in clients:
            client.end()
        cluster.close()
