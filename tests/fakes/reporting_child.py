"""A process of the controller that reports how it was started: `python -m tests.fakes.reporting_child FD`."""

import gc
import sys
from multiprocessing.connection import Connection

if __name__ == "__main__":
    connection = Connection(int(sys.argv[1]))
    assert connection.recv() == "report"
    connection.send({"collects": gc.isenabled(), "arguments": len(sys.argv)})
