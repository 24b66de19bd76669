"""The NIC process: sends and receives real RoCEv2 frames in its host's network namespace.

Runs as `python -S -m heddle.mininet_topos.nic` with the standard library only (it starts in some 40 ms and stays near
10 MB). `control` defines the commands on standard input and the replies on standard output.
"""

import struct
import sys
from contextlib import suppress

from heddle.mininet_topos.host.json_lines import LineReader, read_configuration, write_line
from heddle.mininet_topos.nic.control import new_nic, new_snapshot, serve


def main() -> None:
    """Wait for the configuration, then serve."""
    reader = LineReader(sys.stdin.fileno())
    first = read_configuration(reader)
    if first is None:
        return
    try:
        nic = new_nic(first)
    except (OSError, struct.error) as fault:
        write_line(sys.stdout.buffer, {"ok": False, "error": f"NIC on {first['device']}: {fault}"})
        return
    write_line(sys.stdout.buffer, {"ok": True})
    serve(nic, new_snapshot(first), reader)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the lab has ended
        main()
