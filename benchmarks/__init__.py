"""Benchmarks: `run` of each module in `BENCHMARKS` prints a table and returns the figures, ready for JSON."""

from typing import NamedTuple

if __name__ != "heddle.benchmarks":
    raise ImportError("this package is heddle.benchmarks: import it by that name")


class Benchmark(NamedTuple):
    """Where a benchmark's `run` is, and what it measures in one line."""

    module: str
    measures: str


BENCHMARKS = {
    "balancer": Benchmark(
        "heddle.benchmarks.balancer.benchmark",
        "the load balancer beside plain forwarding, HAProxy, nginx and Linux, under change and attack; needs root",
    ),
    "bmwg": Benchmark(
        "heddle.benchmarks.planning.bmwg",
        "the tables of the IETF's draft on AI training fabrics for ECMP, E-ECMP and planned paths, by the fluid model",
    ),
    "cabling": Benchmark(
        "heddle.benchmarks.fabric.cabling",
        "planted faults of cabling at 64 x 128 and k = 32: causes named as planted, time; needs a source tree",
    ),
    "dataplane": Benchmark(
        "heddle.benchmarks.gateway.dataplane",
        "the packet engine and the gateway beside C, NumPy, scapy, DPDK, Open vSwitch and Linux; needs root",
    ),
    "dashboard": Benchmark(
        "heddle.benchmarks.fabric.dashboard",
        "50 clients of the page at 8,192 NICs and 10,000 flows: processor time, lag of the loop; as root, how soon a "
        "cut cable is on the page of a live lab; needs a source tree",
    ),
    "fluid": Benchmark(
        "heddle.benchmarks.fluid.benchmark",
        "rates and completion times: accuracy beside a packet-level simulator, and cost; needs a source tree",
    ),
    "incast": Benchmark(
        "heddle.benchmarks.fabric.incast",
        "seven and 31 senders into one in the lab, with and without PFC, DCQCN and planned rates; needs root",
    ),
    "iterations": Benchmark(
        "heddle.benchmarks.fabric.iterations",
        "iteration times of two rings on overloaded links in the lab: rates as caps, as floors, ECMP; needs root",
    ),
    "latency": Benchmark(
        "heddle.benchmarks.fabric.latency",
        "the age of a switch counter when the collector has evaluated it, in a lab of 32 hosts at 100 ms; needs root",
    ),
    "loop": Benchmark(
        "heddle.benchmarks.loop.benchmark",
        "the closed loop of a controller: failures, admission, toggling ports, previews, churn; needs a source tree",
    ),
    "page": Benchmark(
        "heddle.benchmarks.fabric.page",
        "the dashboard's page in Chromium: 8,192 NICs, 10,000 flows, a new state each second; needs a source tree",
    ),
    "path-sets": Benchmark(
        "heddle.benchmarks.planning.path_sets",
        "planned path sets beside random ones, all paths and one path: the fullest link over the bound, time, memory",
    ),
    "plan": Benchmark(
        "heddle.benchmarks.planning.plan",
        "ours beside ECMP, Hedera's two schedulers and networkx; time, quality, memory, growth to a million flows",
    ),
    "quality": Benchmark(
        "heddle.benchmarks.planning.quality", "full plans beside their lower bounds, for each family of cases"
    ),
    "session": Benchmark(
        "heddle.benchmarks.planning.session",
        "jobs come and go, links and spines fail, by the service's planner: fullest link, speed of jobs, moves, time",
    ),
    "slurm": Benchmark(
        "heddle.benchmarks.slurm.benchmark",
        "a real Slurm: leaves that jobs use with and without the exported tree, what the hooks add; needs root",
    ),
    "southbound": Benchmark(
        "heddle.benchmarks.fabric.southbound",
        "10,000 rules to one switch, beside ovs-ofctl; needs Open vSwitch and a source tree",
    ),
    "spray": Benchmark(
        "heddle.benchmarks.fabric.spray",
        "flows that spray over planned sets of paths, random sets, one path and ECMP on the same packets, cuts, and "
        "two planes; needs root and a source tree",
    ),
    "srv6": Benchmark(
        "heddle.benchmarks.fabric.srv6",
        "paths that packets name: a hop beside routes and ECMP, a job's start beside OpenFlow and hash, new paths "
        "after a cut; needs root",
    ),
    "submit": Benchmark(
        "heddle.benchmarks.fabric.submit",
        "SubmitJob until every switch has acknowledged, in the lab; needs root and a source tree",
    ),
    "takeover": Benchmark(
        "heddle.benchmarks.gateway.takeover",
        "one of two gateways is killed under TCP: the time without a received byte, and losses; needs root",
    ),
    "telemetry": Benchmark(
        "heddle.benchmarks.fabric.telemetry",
        "10,000 ports at 1 Hz through a real mosquitto: the collector's part of a core, losses, memory",
    ),
    "victim": Benchmark(
        "heddle.benchmarks.fabric.victim",
        "seven senders into one NIC in the lab, and what a flow to the NIC beside it keeps: ECMP, planned; needs root",
    ),
}
"""Every benchmark by the name that `python -m heddle.benchmarks` and `heddle bench` take."""
