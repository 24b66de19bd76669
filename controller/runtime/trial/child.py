"""The process that tries a fabric file: reads it, then requests from a socket, one after another, and replies to each.

`python -m heddle.controller.runtime.trial.child FD`. It ends when the controller closes the socket or dies.
"""

import os
import pickle
import sys
from dataclasses import replace
from multiprocessing.connection import Connection

from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.found_cabling import with_cables_found
from heddle.controller.runtime.journal.fitting import encoded
from heddle.controller.runtime.journal.foresight import Running
from heddle.controller.runtime.trial.judge import checked, judged, with_layout_in_force
from heddle.controller.runtime.trial.wire import Begin, Check, HandedOver, HandOver, Judge

NICENESS = 5


def serve(connection: Connection) -> None:
    """Read the fabric, then serve until the controller closes the connection."""
    first = connection.recv()
    assert isinstance(first, Begin)
    try:
        file = first.source if isinstance(first.source, Fabric) else first.read(first.source)
    except HeddleError as wrong:
        connection.send(wrong)
        return
    connection.send(file.name)
    fabric = file
    running: Running | None = None
    while True:
        message = connection.recv()
        if isinstance(message, Judge):
            running = message.running
            fabric = file if file is first.source else with_cables_found(file, running.fabric)
            connection.send(judged(running, fabric))
            continue
        assert running is not None
        if isinstance(message, Check):
            kept = {name: running.jobs[name] for name in message.kept}
            running = replace(message.running, jobs=kept | dict(message.running.jobs))
            connection.send(checked(running, fabric))
        else:
            assert isinstance(message, HandOver)
            connection.send(HandedOver(encoded(fabric), pickle.dumps(with_layout_in_force(running, fabric))))


if __name__ == "__main__":
    os.nice(NICENESS)  # garbage collection stays off: it lives for seconds, and most of what it makes stays
    try:
        serve(Connection(int(sys.argv[1])))
    except (EOFError, KeyboardInterrupt, ConnectionError):
        sys.exit(0)
