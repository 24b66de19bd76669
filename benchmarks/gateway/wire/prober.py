"""Send single frames through a device and measure each one's latency, from before the send call to its reception.

`python -m heddle.benchmarks.gateway.wire.prober SENDER_SPACE RECEIVER_SPACE BYTES tunnel|MAC` takes namespaces as files
and prints `ready`. For each input line `COUNT PACKETS_PER_S` it sends that many frames on a raw socket, polls another
one without sleep, and prints a JSON line. The last eight bytes of a frame are its number.
"""

import ctypes
import gc
import json
import os
import socket
import sys
import time
from collections.abc import Sequence

from heddle.benchmarks.gateway.wire.traffic import shaped

ETH_P_ALL, CLONE_NEWNET = 3, 0x40000000
TIMEOUT_NS = 100_000_000
"""After this time the next frame is sent; the late one still counts if it arrives."""
NUMBER_BYTES = 8
_libc = ctypes.CDLL(None, use_errno=True)


def _socket(space: str, interface: str, protocol: int) -> socket.socket:
    """Open a raw socket in a network namespace; this thread stays there."""
    with open(space, "rb") as file:
        if _libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    made.bind((interface, protocol))
    return made


def probe(
    sender: socket.socket, receiver: socket.socket, rows: Sequence[bytes], first: int, count: int, gap_ns: int
) -> list[int]:
    """Return the latency of each received frame in nanoseconds; frame numbers start at `first`."""
    sent_ns: list[int] = []
    took: list[int] = []
    room = bytearray(16384)
    due = time.perf_counter_ns()
    for number in range(count):
        row = rows[(first + number) % len(rows)]
        frame = row[:-NUMBER_BYTES] + (first + number).to_bytes(NUMBER_BYTES, "big")
        while time.perf_counter_ns() < due:
            _receive(receiver, room, first, sent_ns, took)
        sent_ns.append(time.perf_counter_ns())
        sender.send(frame)
        before = len(took)
        while len(took) == before and time.perf_counter_ns() - sent_ns[-1] < TIMEOUT_NS:
            _receive(receiver, room, first, sent_ns, took)
        due = max(due + gap_ns, time.perf_counter_ns())
    return took


def _receive(receiver: socket.socket, room: bytearray, first: int, sent_ns: Sequence[int], took: list[int]) -> None:
    try:
        length = receiver.recv_into(room, 0, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return
    now = time.perf_counter_ns()
    number = int.from_bytes(room[length - NUMBER_BYTES : length], "big") - first
    if 0 <= number < len(sent_ns):
        took.append(now - sent_ns[number])


def main() -> None:
    sender_space, receiver_space, length = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rows = [row.tobytes() for row in shaped(length, sys.argv[4])]
    sender = _socket(sender_space, "g0", 0)  # protocol 0: no reception
    receiver = _socket(receiver_space, "s0", ETH_P_ALL)
    first = 1
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    for line in sys.stdin:
        count, rate = int(line.split()[0]), float(line.split()[1])
        took = probe(sender, receiver, rows, first, count, round(1e9 / rate) if rate else 0)
        first += count
        print(json.dumps({"sent": count, "took_ns": sorted(took)}), flush=True)


if __name__ == "__main__":
    main()
