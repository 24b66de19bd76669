"""Let the gRPC server of a next life listen beside that of the former one, which no other program could do before."""

import contextlib
import os
import socket
import stat


def share_port(port: int) -> int:
    """Let sockets that this user opens with SO_REUSEPORT listen at a TCP port where this process listens already.

    Both sockets need the option. One that is bound without it is safe from others until its successor is ready, so it
    is set then; that of a library is found among the descriptors of the process. Returns how many sockets have it now.
    """
    shared = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own descriptor, and those that other threads close
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as found:
                is_tcp = found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM
                if (
                    is_tcp
                    and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                    and found.getsockname()[1] == port
                ):
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                    shared += 1
    return shared
