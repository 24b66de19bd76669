"""A process that serves the controller over a socket, and ends when that closes (ADR 19).

A message is a pickle with its length before it, as `multiprocessing.connection` writes it: the process uses that.
"""

import asyncio
import pickle
import socket
import struct
import subprocess
import sys
import threading

LOST = (EOFError, OSError)
"""What `receive` raises where the process ends before it replies; a TimeoutError is an OSError."""
_LENGTH = struct.Struct("!i")
"""The length of a message below 2 GiB."""
_RUN = "import gc, runpy, sys; gc.disable(); runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
"""Run a module without garbage collection: what it imports stays, and to walk it took a tenth of the start."""


class ChildProcess:
    """`python -m MODULE FD`, where FD is its end of a socket pair, and the other end.

    The process starts without garbage collection, and enables it once it has imported and loaded what it needs.
    """

    def __init__(self, module: str) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _RUN, module, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process; a thread waits for its end, which takes the kernel tens of milliseconds."""
        self._process.kill()
        threading.Thread(target=self._process.wait, name=f"end of {self.pid}", daemon=True).start()

    def close(self) -> None:
        """End the process and the connection; does not wait for a request under way."""
        self.kill()
        if self._streams is not None:
            self._streams[1].close()
        else:
            self.socket.close()

    async def send(self, content: bytes) -> None:
        """Write a message, which is pickled already; `drain` waits until it is sent."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(sock=self.socket)
        self._streams[1].write(_LENGTH.pack(len(content)) + content)

    async def drain(self) -> None:
        """Wait until the process has read most of what was written; raises LOST."""
        assert self._streams is not None
        await self._streams[1].drain()

    async def receive(self) -> object:
        """Return the next message of the process; raises LOST."""
        assert self._streams is not None
        reader = self._streams[0]
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return pickle.loads(await reader.readexactly(length))
