"""Figures, not tests: each module's `run` prints a table and returns what it measured, ready for JSON."""

NAMES = {
    "dataplane": "the packet engine and the gateway beside C, NumPy, scapy, DPDK, Open vSwitch and Linux; needs root",
    "fluid": "rates and completion times: how near they come to a packet-level simulator, and how fast they are",
    "incast": "seven and 31 senders into one in the lab, with and without PFC, DCQCN and planned rates; needs root",
    "latency": "from a counter at a switch to the look that saw it, in a lab of 32 hosts at 100 ms; needs root",
    "plan": "ours beside ECMP, Hedera's two schedulers and networkx; time, quality, memory, growth to a million flows",
    "quality": "how near full plans come to their bounds, family by family",
    "session": "jobs that come and go, links and spines that fail at 16,000 GPUs: time, and flows that had to move",
    "southbound": "10,000 rules to one switch, beside ovs-ofctl; needs Open vSwitch and a source tree",
    "submit": "SubmitJob until every switch has acknowledged, in the lab; needs root and a source tree",
    "takeover": "one of two gateways is killed under TCP: for how long nothing arrives, and what is lost; needs root",
    "telemetry": "10,000 ports at 1 Hz through a real mosquitto: the collector's share of a core, losses, memory",
}
"""Every benchmark with what it measures; a module of the same name is its code."""
