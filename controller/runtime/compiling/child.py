"""The compiler's process: reads requests from a socket, one after another, and replies to each in parts.

`python -m heddle.controller.runtime.compiling.child FD`. It ends when the controller closes the socket or dies.
"""

import gc
import sys
from multiprocessing.connection import Connection

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.rule import SwitchRules
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.underlay.compilation import Parts
from heddle.controller.runtime.compiling.wire import Begin, CompileMessage, End, PartWriter


class Child:
    """The fabric, and the rules of the last reply, which the next request is based on."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self._layout, self._parts = fabric, layout_of(fabric), Parts()
        self._health = fabric.failed
        self._rules = self._compiled(fabric.failed)

    def serve(self, connection: Connection) -> None:
        """Reply to requests until the controller closes the connection."""
        while True:
            message = connection.recv()
            assert isinstance(message, CompileMessage)
            if message.base != self._health:  # the first request after another process was lost
                self._rules = self._compiled(message.base)
            base, self._rules, self._health = self._rules, self._compiled(message.health), message.health
            for part in PartWriter().parts(base, self._rules):
                connection.send(part)
            connection.send(End())

    def _compiled(self, health: Health) -> dict[str, SwitchRules]:
        return compile_fabric(self._fabric, self._layout, health, (), self._parts)


def serve(connection: Connection) -> None:
    """Compile the rules of the whole fabric, then serve."""
    first = connection.recv()
    assert isinstance(first, Begin)
    child = Child(first.fabric)
    # Rules refer to values only, so reference counts free them; a full collection of half a million takes 0.3 s.
    gc.disable()
    child.serve(connection)


if __name__ == "__main__":
    try:
        serve(Connection(int(sys.argv[1])))
    except (EOFError, KeyboardInterrupt, ConnectionError):
        sys.exit(0)
