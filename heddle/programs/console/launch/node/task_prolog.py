"""What Slurm's TaskProlog runs: announce the task to the node's agent, and print the variables that give it its ports.

    python3 -I -S task_prolog.py SOCKET LIBRARY

Slurm adds lines `export NAME=VALUE` to the task's environment (slurm.conf(5), TaskProlog), and cancels a task whose
prolog fails: nothing here raises. Without an agent, or without the library, nothing is printed and the task runs as
without Heddle. It imports the standard library alone, so that it takes some 20 ms.
"""

import os
import socket
import struct
import sys

MAGIC = 0x31504448
REQUEST = struct.Struct("=II16s16sII")
TIMEOUT_S = 1.5
"""The agent holds an announcement for 1 s at most, until it knows the job's plan."""


def variables(path: str, library: str, environment: "dict[str, str]") -> "dict[str, str]":
    """Return the variables of a task; none where it has the socket's variable already, also as an empty text."""
    if "HEDDLE_PORT_SOCKET" in environment or not os.access(library, os.R_OK) or not announced(path):
        return {}
    audit = environment.get("LD_AUDIT", "")
    return {"HEDDLE_PORT_SOCKET": path, "LD_AUDIT": f"{audit}:{library}" if audit else library}


def announced(path: str) -> bool:
    """Return whether an agent has this task now, and has looked for its job."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
            agent.settimeout(TIMEOUT_S)
            agent.connect(path)
            agent.send(REQUEST.pack(MAGIC, 1, bytes(16), bytes(16), 0, 0))
            return len(agent.recv(64)) > 0
    except OSError:
        return False


if __name__ == "__main__":
    for name, value in variables(sys.argv[1], sys.argv[2], dict(os.environ)).items():
        print(f"export {name}={value}")
