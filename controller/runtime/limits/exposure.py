"""Log at the start and every hour that a port is open to every peer."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

EVERY_S = 3600.0
_LOG = logging.getLogger("heddle.controller")


@contextmanager
def warned(listeners: Mapping[str, str], every_s: float = EVERY_S) -> Iterator[None]:
    """Warn of listeners (address by config key) while the context lasts, in the running event loop."""
    running = asyncio.get_running_loop()
    timer: list[asyncio.TimerHandle] = []

    def warn() -> None:
        for key, address in listeners.items():
            _LOG.warning("%s: %s is reachable from other machines without TLS (insecure)", key, address)
        timer[:] = [running.call_later(every_s, warn)]

    if listeners:
        warn()
    try:
        yield
    finally:
        for handle in timer:
            handle.cancel()
