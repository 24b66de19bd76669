"""Wait for link changes reported by the kernel: rtnetlink's multicast group RTMGRP_LINK (rtnetlink(7)).

Messages are not decoded: after any of them the present links are read. So an overrun (ENOBUFS) counts as a message.
"""

import asyncio
import contextlib
import errno
import socket

RTMGRP_LINK = 1
MAX_BYTES = 1 << 16


class LinkMonitor:
    """Netlink socket subscribed to link changes in this process's network namespace."""

    def __init__(self) -> None:
        """Subscribe; raises OSError. Needs a running event loop."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        self._changed = asyncio.Event()
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
                except OSError as error:
                    if error.errno != errno.ENOBUFS:
                        raise
                self._changed.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a change since the last `clear`; return whether there was one in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):  # wait_for of Python 3.11 may drop a cancellation
                await self._changed.wait()
        return self._changed.is_set()

    def clear(self) -> None:
        """Forget the changes reported so far; call it before reading the present links."""
        self._changed.clear()

    def close(self) -> None:
        """Unsubscribe and close the socket."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
