"""The commands of a NIC process, and its main loop over control pipe and network.

Commands are JSON lines on standard input, each with one reply on standard output:

    {"op": "configure", "nic", "host", "device", "mac", "ip", "catch_up_ns", "line_rate_bps",
     "dcqcn": DcqcnSettings as an object, or null for a NIC that neither sends CNPs nor reacts to them,
     "snapshot_path", "snapshot_period_ns"}                             once; see `Snapshot`
    {"op": "open", "requesters": [...], "responders": [...]}            queue pairs, see `SendQueue`, `ReceiveQueue`
    {"op": "run", "start_ns"}                                           send; a line {"event": "complete"} follows,
                                                                        {"event": "paths"} where a path is denied
    {"op": "post", "qpns", "size_bytes"}                                send more; {"event": "complete"} follows again
    {"op": "modify", "qpn", and any of "udp_source_port", "rate_bps", "floor_bps",
     "admission": {"slot", "slots", "slot_ns"}, "move": "planned" (default) or "failure", "drain_ns", "reason"}
                                                                        see `path_move`; "reason" is for the report
    {"op": "modify", "qpn", "paths": [{"udp_source_port", "sid", "weight"}]}   of a queue pair that sprays
    {"op": "pause", "priority", "quanta"}                               send one PFC frame
    {"op": "storm", "priority", "running"}                              start or stop to send PFC frames without end
    {"op": "stop"}                                                      send no more data, continue to receive
    {"op": "counts"}, {"op": "report"}                                  counts since the last reset; and queue pairs
    {"op": "queue_pairs"}                                               those that send: peer, port, bytes sent by now
    {"op": "reset"}                                                     remove all queue pairs, reset the counts

Time is CLOCK_MONOTONIC in nanoseconds, the same in all namespaces; admission windows are in unix time.
"""

import select
import sys
import time
from collections.abc import Callable
from typing import Any

from heddle.mininet_topos.host.json_lines import LineReader, write_line
from heddle.mininet_topos.nic.dcqcn import DcqcnSettings
from heddle.mininet_topos.nic.device import Nic
from heddle.mininet_topos.nic.path_move import MOVES, PLANNED
from heddle.mininet_topos.nic.snapshot import Snapshot

Command = dict[str, Any]
COMPLETE, PATHS = "complete", "paths"


def new_nic(command: Command) -> Nic:
    """Create the NIC that `configure` describes; raises OSError if its sockets cannot be opened."""
    dcqcn = command.get("dcqcn")
    return Nic(
        command["device"], command["mac"], command["ip"], command["catch_up_ns"], command["line_rate_bps"],
        None if dcqcn is None else DcqcnSettings(**dcqcn),
    )  # fmt: skip


def new_snapshot(command: Command) -> Snapshot:
    """Create the counter file that `configure` describes."""
    names = ("nic", "host", "device", "line_rate_bps")
    return Snapshot(
        command.get("snapshot_path", ""),
        command.get("snapshot_period_ns", 0),
        **{name: command.get(name) for name in names},
    )


def execute(nic: Nic, command: Command) -> Command:
    """Execute one command and return the reply."""
    operation = command["op"]
    if operation in ("counts", "report"):
        return {"ok": True, **nic.report(full=operation == "report")}
    if operation == "queue_pairs":
        return {"ok": True, **nic.sending_queue_pairs()}
    if operation not in _OPERATIONS:
        return {"ok": False, "error": f"unknown operation {operation!r}"}
    fault = _OPERATIONS[operation](nic, command)
    return {"ok": False, "error": fault} if fault else {"ok": True}


def serve(nic: Nic, snapshot: Snapshot, reader: LineReader) -> None:
    """Serve network and control pipe until the pipe is closed."""
    announced, path_changes = True, 0
    while True:
        nic.receive()
        now_ns = time.monotonic_ns()
        wake_ns = nic.send(now_ns)
        if nic.running and not announced and nic.complete:
            write_line(sys.stdout.buffer, {"event": COMPLETE})
            announced = True
        if nic.running and nic.path_changes > path_changes:
            write_line(sys.stdout.buffer, {"event": PATHS})
        path_changes = nic.path_changes
        if snapshot.due_ns <= now_ns:
            snapshot.write(now_ns, nic.totals(now_ns), nic.queue_pairs)
        timeout_s = max(0.0, (min(wake_ns, snapshot.due_ns) - now_ns) / 1e9)
        readable = select.select([nic.socket.fileno(), reader.fd], [], [], timeout_s)[0]
        if nic.running:
            nic.lateness.woke(max(wake_ns, now_ns), time.monotonic_ns())
        if reader.fd not in readable:
            continue
        for command in reader.read():
            announced = announced and command["op"] not in ("run", "post")
            write_line(sys.stdout.buffer, execute(nic, command))
        if reader.closed:
            return


def _open(nic: Nic, command: Command) -> str | None:
    try:
        nic.open(command["requesters"], command["responders"])
    except ValueError as fault:
        return str(fault)
    return None


def _run(nic: Nic, command: Command) -> None:
    nic.run(command["start_ns"])


def _post(nic: Nic, command: Command) -> str | None:
    try:
        nic.post(command["qpns"], command["size_bytes"])
    except KeyError as fault:
        return f"no queue pair {fault} sends"
    except ValueError as fault:
        return str(fault)
    return None


def _modify(nic: Nic, command: Command) -> str | None:
    if command.get("move", PLANNED) not in MOVES:
        return f"unknown move {command['move']!r}"
    try:
        return None if nic.modify(command["qpn"], command) else f"no queue pair {command['qpn']} is open"
    except ValueError as fault:
        return str(fault)


def _pause(nic: Nic, command: Command) -> None:
    nic.pause_peer({command["priority"]: command["quanta"]})


def _storm(nic: Nic, command: Command) -> None:
    nic.storm(command["priority"], command["running"])


def _stop(nic: Nic, _command: Command) -> None:
    nic.running = False


def _reset(nic: Nic, _command: Command) -> None:
    nic.reset()


_OPERATIONS: dict[str, Callable[[Nic, Command], str | None]] = {
    "open": _open,
    "run": _run,
    "post": _post,
    "modify": _modify,
    "pause": _pause,
    "storm": _storm,
    "stop": _stop,
    "reset": _reset,
}
