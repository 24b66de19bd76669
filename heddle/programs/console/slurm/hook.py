"""What PrologSlurmctld and EpilogSlurmctld run: wake the agent, wait until it has planned, always end with status 0.

Slurm 22.05 runs hooks with SIGTERM and SIGALRM blocked, without PATH, and kills or requeues a job whose hook fails or
takes long: the deadline is that of socket time-outs, and nothing here raises. `python3 -I -S hook.py SOCKET SECONDS`
imports what is compiled into the interpreter alone: the module `socket` would take as long as the interpreter's start.
"""

import _socket
import sys
import time

TIMEOUT_S = 2.5
"""`srun` of Slurm 22.05 polls a job after 2.1, 2.8 and 3.6 s: a hook of 2.5 s delays it by 2.8 s, one of 3 s by 3.6."""
SOCKET = "/run/heddle-slurm/agent.sock"
VARIABLE = "HEDDLE_SLURM_SOCKET"
WAKE = b"wake\n"


def wake(path: str, timeout_s: float = TIMEOUT_S) -> None:
    """Make the agent compare Slurm's jobs with the controller's, and wait until it has, at most `timeout_s`."""
    end_s = time.monotonic() + timeout_s
    try:
        agent = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            agent.settimeout(timeout_s)
            agent.connect(path)
            agent.sendall(WAKE)
            agent.settimeout(max(0.001, end_s - time.monotonic()))
            agent.recv(1)
        finally:
            agent.close()
    except (OSError, ValueError):
        pass  # without the agent the job runs all the same; the agent plans it when it is back


if __name__ == "__main__":
    wake(sys.argv[1], float(sys.argv[2]))
