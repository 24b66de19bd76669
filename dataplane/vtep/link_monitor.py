"""Word from the kernel that interfaces came, went or changed: rtnetlink's group of links (rtnetlink(7)).

Only that something happened counts here; what there is now is asked anew. So a lost message (ENOBUFS) is a message.
"""

import asyncio
import contextlib
import errno
import socket

RTMGRP_LINK = 1
MAX_BYTES = 1 << 16


class LinkMonitor:
    """A socket that hears of links in the network namespace of this process; raises OSError where there is none."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        self._heard = asyncio.Event()
        try:
            self._socket.bind((0, RTMGRP_LINK))
            asyncio.get_running_loop().add_reader(self._socket, self._read)
        except BaseException:
            self._socket.close()
            raise

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    self._socket.recv(MAX_BYTES)
                except OSError as lost:
                    if lost.errno != errno.ENOBUFS:
                        raise
                self._heard.set()

    async def wait(self, at_most_s: float) -> bool:
        """Wait until something happens since the last call's end; whether it did in time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), at_most_s)
        return self._heard.is_set()

    def forget(self) -> None:
        """Let what happened so far be known."""
        self._heard.clear()

    def close(self) -> None:
        """Hear no more."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
