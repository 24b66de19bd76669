"""Share the process's file descriptors among its ports, so that none takes those of another (RLIMIT_NOFILE)."""

import asyncio
import errno
import logging
import resource
from typing import Any, NamedTuple

OWN = 128
"""Files, pipes of processes, the broker's connection and the listeners."""
HTTP = 208
"""Short connections and streams of the page, which have limits of their own."""
MIN_STRANGERS = 16
MAX_OPENFLOW = 4_096
MAX_STRANGERS = 1_024
_LOG = logging.getLogger("heddle.controller")


class Places(NamedTuple):
    """How many connections each port may have."""

    openflow: int
    strangers: int
    """Of these, connections that are no switches yet."""
    grpc: int


def places(descriptors: int, switches: int, grpc: int) -> Places:
    """Return the connections of each port: gRPC has at most a third of what is left beside the others' needs."""
    left = max(3 * MIN_STRANGERS, descriptors - OWN - HTTP)
    of_grpc = min(grpc, left // 3)
    openflow = min(max(MAX_OPENFLOW, switches + MAX_STRANGERS), left - of_grpc)
    return Places(openflow, max(MIN_STRANGERS, min(MAX_STRANGERS, openflow - switches)), of_grpc)


def places_of_process(switches: int, grpc: int) -> Places:
    """Raise the limit of descriptors as far as this process may, and share them; log where switches lack some."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = places(hard, switches, grpc)
    if found.openflow < switches + MIN_STRANGERS:
        needed = OWN + HTTP + (switches + MIN_STRANGERS) * 3 // 2
        _LOG.warning("%d file descriptors are too few for %d switches: allow %d (LimitNOFILE, ulimit -n)",
                     hard, switches, needed)  # fmt: skip
    return found


def report_shortage(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log in one line that a connection found no file descriptor (accept(2)); asyncio tries again after a second.

    An exception handler of the event loop: everything else is reported as by default, with its traceback.
    """
    fault = context.get("exception")
    if isinstance(fault, OSError) and fault.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
        _LOG.warning("a connection waits: %s (LimitNOFILE, ulimit -n)", fault.strerror)
        return
    loop.default_exception_handler(context)
