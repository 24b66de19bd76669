"""Load a lab with `paced_traffic`: several NICs send to one at given rates, and all count packets."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heddle.controller.model.address import ip_text
from heddle.foundation.address import mac_text
from heddle.mininet_topos.lab import Lab

PROGRAM = Path(__file__).with_name("paced_traffic.py")
LEAD_S = 0.1


def run_load(
    lab: Lab,
    rates_bps: Mapping[str, float],
    receiver: str,
    seconds: float,
    *,
    drain_s: float = 0.5,
    traffic_class: int = 26 << 2 | 2,
    deaf: bool = False,
) -> dict[str, dict[str, int]]:
    """Send to `receiver` from each NIC at its rate; return every NIC's counts: tx, rx, ce, pauses, resumes."""
    nics = lab.fabric.nic_by_id
    processes: dict[str, Any] = {}
    for number, name in enumerate({**rates_bps, receiver: 0.0}):
        nic, other = nics[name], nics[receiver]
        words = {
            "device": lab.net.device_of[name],
            "source": ip_text(nic.ip),
            "destination": ip_text(other.ip),
            "source-mac": mac_text(nic.mac).replace(":", ""),
            "destination-mac": mac_text(other.mac).replace(":", ""),
            "rate": rates_bps.get(name, 0.0),
            "line": nic.capacity_bps,
            "seconds": seconds,
            "drain": drain_s,
            "port": 0xC001 + number,
            "traffic-class": traffic_class,
        }
        command = [sys.executable, "-S", str(PROGRAM), *(word for k, v in words.items() for word in (f"--{k}", str(v)))]
        processes[name] = lab.net.host(nic.host).popen(
            [*command, *(["--deaf"] if deaf else [])], stdin=subprocess.PIPE, text=True
        )
    for process in processes.values():
        assert process.stdout.readline() == "ready\n"
    start = time.monotonic() + LEAD_S
    for process in processes.values():
        process.stdin.write(f"{start}\n")
        process.stdin.flush()
    found = {}
    for name, process in processes.items():
        output, complaint = process.communicate(timeout=seconds + drain_s + 30)
        assert process.returncode == 0, complaint
        found[name] = json.loads(output)
    return found
