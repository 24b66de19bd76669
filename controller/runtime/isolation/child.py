"""The process that verifies isolation: reads messages from a socket, one after another, and replies to requests.

`python -m heddle.controller.runtime.isolation.child FD`. It ends when the controller closes the socket or dies.
"""

import gc
import os
import sys
from dataclasses import replace
from multiprocessing.connection import Connection

from heddle.controller.runtime.isolation.verification import verified
from heddle.controller.runtime.isolation.wire import Forget, Learn, Verify
from heddle.dataplane.config.network import Vpc

NICENESS = 10


def serve(connection: Connection) -> None:
    """Serve until the controller closes the connection."""
    vpcs: dict[str, Vpc] = {}
    while True:
        message = connection.recv()
        if isinstance(message, Learn):
            vpcs[message.vpc.id] = message.vpc
        elif isinstance(message, Forget):
            del vpcs[message.vpc_id]
        else:
            assert isinstance(message, Verify)
            connection.send(verified(message._replace(networks=replace(message.networks, vpcs=vpcs))))


if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    os.nice(NICENESS)
    try:
        serve(Connection(int(sys.argv[1])))
    except (EOFError, KeyboardInterrupt, ConnectionError):
        sys.exit(0)
