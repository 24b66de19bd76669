"""Link capacity: the rate of each port, and the plain queue in front of it, as tc qdiscs.

Each egress is a token bucket at the port's rate (`tbf`) over a queue that holds about QUEUE_BYTES of full frames. The
queue of a switch port drops from its head (`pfifo_head_drop`). A tail drop would return ENOBUFS to the sender, and Open
vSwitch then discards the rest of its batch uncounted; a head drop loses exactly one counted frame.

An emulated link has no clock of its own: when this machine stalls (a virtual machine does, for tens of milliseconds),
all links stall, and a link that is full by design would carry the backlog to the end of the run. So the bucket of an
`Egress` holds what the link sends in `catch_up_ns`, the time that NICs catch up as well. Over longer times the rate is
exact. The model with priorities, ECN and PFC is in `queues`.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

FULL_FRAME_BYTES = 4170
QUEUE_FRAMES = 80
QUEUE_BYTES = QUEUE_FRAMES * FULL_FRAME_BYTES
MTU_BYTES = 9000
BURST_TIME_S = 0.0005
MAX_CATCH_UP_NS = 50_000_000


class QueueCounters(NamedTuple):
    """Counters of an egress queue: frames sent, frames dropped, and bytes queued now."""

    sent_packets: int
    dropped_packets: int
    backlog_bytes: int


def catch_up_time_ns(queue_bytes: int, fastest_bps: int) -> int:
    """Return the longest stall that senders may catch up: a quarter of the queue at the fastest link's rate."""
    return min(MAX_CATCH_UP_NS, queue_bytes * 8 * 10**9 // (4 * fastest_bps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """One interface, its rate, and the longest stall of the machine after which it still catches up."""

    interface: str
    rate_bps: int
    catch_up_ns: int = 0

    @property
    def switch_commands(self) -> tuple[str, ...]:
        """Return the `tc` commands (without "tc") that shape a switch port."""
        leaf = f"qdisc replace dev {self.interface} parent 1:1 handle 10: pfifo_head_drop limit {QUEUE_FRAMES}"
        return (self._bucket(2 * QUEUE_BYTES), leaf)  # the leaf queue is the one that drops

    @property
    def nic_commands(self) -> tuple[str, ...]:
        """Return the `tc` commands that shape a NIC; its full queue refuses frames (ENOBUFS) and drops none."""
        return (self._bucket(QUEUE_BYTES),)

    def _bucket(self, limit_bytes: int) -> str:
        burst = max(MTU_BYTES + 1000, int(self.rate_bps * max(BURST_TIME_S, self.catch_up_ns / 1e9) / 8))
        shape = f"tbf rate {self.rate_bps}bit burst {burst} limit {limit_bytes + burst}"
        return f"qdisc replace dev {self.interface} root handle 1: {shape}"


def shape_switch_ports(egresses: Iterable[Egress], entrance: Sequence[str] = ()) -> None:
    """Shape switch ports in one batch, in the namespace that `entrance` enters; raises OSError with tc's message."""
    batch = "\n".join(command for egress in egresses for command in egress.switch_commands)
    done = subprocess.run([*entrance, "tc", "-batch", "-"], input=batch, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise OSError(f"tc refused to shape the links: {done.stderr.strip()}")


def read_counters(interfaces: Iterable[str]) -> Mapping[str, QueueCounters]:
    """Return the queue counters of shaped interfaces of the current network namespace, by name."""
    done = subprocess.run(["tc", "-s", "-j", "qdisc", "show"], text=True, capture_output=True, check=True)
    return parse_counters(done.stdout, interfaces)


def parse_counters(text: str, interfaces: Iterable[str]) -> Mapping[str, QueueCounters]:
    """Parse the JSON of `tc -s -j qdisc show`: the leaf queue of each given interface."""
    wanted = set(interfaces)
    return {
        entry["dev"]: QueueCounters(entry["packets"], entry["drops"], entry["backlog"])
        for entry in json.loads(text)
        if entry.get("dev") in wanted and entry.get("handle") == "10:"
    }
