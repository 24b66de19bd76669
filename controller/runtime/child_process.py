"""Begin and end a process that serves the controller over a socket, and ends when that closes (ADR 19)."""

import socket
import subprocess
import sys
import threading

Process = subprocess.Popen[bytes]


def begin(module: str) -> tuple[Process, socket.socket]:
    """Start `python -m MODULE FD`, where FD is its end of a socket pair; return the process and the other end."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", module, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
    return process, ours


def end(process: Process) -> None:
    """Kill a process; a thread waits for its end, which takes the kernel tens of milliseconds."""
    process.kill()
    threading.Thread(target=process.wait, name=f"end of {process.pid}", daemon=True).start()
