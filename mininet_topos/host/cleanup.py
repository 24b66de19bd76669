"""Find and remove processes and interfaces by the marks of a lab.

A process is found by its environment and signalled through a pidfd that was opened before the
environment was read, so a number that was given to a newcomer in between is never hit.
"""

import os
import re
import select
import signal
import socket
import subprocess
import time
from contextlib import suppress

TERM_WAIT_S = 1.0
KILL_WAIT_S = 2.0
EXEC_S = 0.01
"""A process that is just being executed shows an empty environment for a moment: who finds none looks once more."""
SYSTEM_DATAPATH = "system@ovs-system"


def processes(mark: str) -> dict[int, int]:
    """Return a pidfd for every process whose environment holds exactly `mark` (NAME=value); the caller closes them."""
    wanted = mark.encode()
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(ProcessLookupError):
            pidfd = os.pidfd_open(int(name))
            if wanted in _environment(int(name)):
                found[int(name)] = pidfd
            else:
                os.close(pidfd)
    return found


def end_processes(mark: str) -> int:
    """End all processes that bear the mark: SIGHUP and SIGTERM, then SIGKILL to what stays; return how many there were.

    Repeats until none is found, since a process may start another while it is being looked for.
    """
    ended = 0
    while found := processes(mark) or _processes_after_a_moment(mark):
        ended += len(found)
        _signal_all(found, signal.SIGHUP)  # what an interactive shell, Mininet's host, ends on
        _signal_all(found, signal.SIGTERM)
        left = _wait(found, TERM_WAIT_S)
        _signal_all(left, signal.SIGKILL)
        stuck = _wait(left, KILL_WAIT_S)
        for pid, pidfd in found.items():
            _reap(pid)
            os.close(pidfd)
        if stuck:
            break
    return ended


def _processes_after_a_moment(mark: str) -> dict[int, int]:
    time.sleep(EXEC_S)
    return processes(mark)


def remove_interfaces(prefix: str, link_group: int) -> None:
    """Remove the root namespace's interfaces of a lab: its whole group at once, then any other with its prefix."""
    if any(name.startswith(prefix) for _, name in socket.if_nameindex()):
        subprocess.run(["ip", "link", "del", "group", str(link_group)], capture_output=True, check=False)
    left = [name for _, name in socket.if_nameindex() if name.startswith(prefix)]
    if left:
        batch = "".join(f"link del dev {name}\n" for name in left)
        subprocess.run(["ip", "-force", "-batch", "-"], input=batch, text=True, capture_output=True, check=False)


def leave_system_datapath(prefix: str) -> None:
    """Take a lab's ports out of the kernel's Open vSwitch datapath, and the datapath away if nothing else is in it."""
    ports = _system_ports()
    for name in ports:
        if name.startswith(prefix):
            subprocess.run(["ovs-dpctl", "del-if", SYSTEM_DATAPATH, name], capture_output=True, check=False)
    if ports and all(name.startswith(prefix) or name == "ovs-system" for name in ports):
        subprocess.run(["ovs-dpctl", "del-dp", SYSTEM_DATAPATH], capture_output=True, check=False)


def _system_ports() -> list[str]:
    done = subprocess.run(["ovs-dpctl", "show", SYSTEM_DATAPATH], text=True, capture_output=True, check=False)
    return re.findall(r"^\s+port \d+: (\S+)", done.stdout, re.MULTILINE)


def _environment(pid: int) -> list[bytes]:
    """Return a process's environment; empty where it has none (a thread of the kernel, a zombie, another user's)."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _signal_all(found: dict[int, int], number: signal.Signals) -> None:
    for pidfd in found.values():
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)


def _wait(found: dict[int, int], seconds: float) -> dict[int, int]:
    """Wait until the processes have ended; return those that have not."""
    left, deadline = dict(found), time.monotonic() + seconds
    while left and (rest := deadline - time.monotonic()) > 0:
        poll = select.poll()
        for pidfd in left.values():
            poll.register(pidfd, select.POLLIN)
        done = {fd for fd, _ in poll.poll(rest * 1000)}
        left = {pid: pidfd for pid, pidfd in left.items() if pidfd not in done}
    return left


def _reap(pid: int) -> None:
    """Collect the status of a child of ours, so that it does not stay as a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
