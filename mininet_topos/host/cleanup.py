"""Find and remove the processes, interfaces and datapath ports of a lab by its tag, name prefix and link group.

A process is found by its environment. It is signalled through a pidfd that was opened before its environment was read,
so a process that reuses the pid is never signalled.
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
"""A process shows an empty environment for a moment during execve(2): where none is found, the search is repeated."""
SYSTEM_DATAPATH = "system@ovs-system"


def processes(tag: str) -> dict[int, int]:
    """Return a pidfd for every process whose environment has exactly `tag` (NAME=value); the caller closes them."""
    wanted = tag.encode()
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


def end_processes(tag: str) -> int:
    """End all processes with a tag: SIGHUP and SIGTERM, then SIGKILL to the remaining ones; return their number.

    Repeats until none is found, since a process may start another one during the search.
    """
    ended = 0
    while found := processes(tag) or _processes_after_exec(tag):
        ended += len(found)
        _signal_all(found, signal.SIGHUP)  # an interactive shell, such as Mininet's host, ignores SIGTERM
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


def _processes_after_exec(tag: str) -> dict[int, int]:
    time.sleep(EXEC_S)
    return processes(tag)


def remove_interfaces(prefix: str, link_group: int) -> None:
    """Remove a lab's interfaces in the root namespace: the link group at once, then any other with the prefix."""
    if any(name.startswith(prefix) for _, name in socket.if_nameindex()):
        subprocess.run(["ip", "link", "del", "group", str(link_group)], capture_output=True, check=False)
    left = [name for _, name in socket.if_nameindex() if name.startswith(prefix)]
    if left:
        batch = "".join(f"link del dev {name}\n" for name in left)
        subprocess.run(["ip", "-force", "-batch", "-"], input=batch, text=True, capture_output=True, check=False)


def leave_system_datapath(prefix: str) -> None:
    """Remove a lab's ports from the kernel's Open vSwitch datapath, and the datapath itself if it is then empty."""
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
    """Return a process's environment; empty for a kernel thread, a zombie or another user's process."""
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
    """Wait for the processes to end; return those that still run after `seconds`."""
    left, deadline = dict(found), time.monotonic() + seconds
    while left and (rest := deadline - time.monotonic()) > 0:
        poll = select.poll()
        for pidfd in left.values():
            poll.register(pidfd, select.POLLIN)
        done = {fd for fd, _ in poll.poll(rest * 1000)}
        left = {pid: pidfd for pid, pidfd in left.items() if pidfd not in done}
    return left


def _reap(pid: int) -> None:
    """Collect the exit status if the process is a child of this one, so that it does not stay a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
