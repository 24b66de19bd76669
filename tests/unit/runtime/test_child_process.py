"""A process that serves the controller starts as a module does, but without garbage collection."""

import pickle

from heddle.controller.runtime.child_process import ChildProcess


async def test_a_process_imports_without_garbage_collection_and_gets_its_socket_as_the_only_argument():
    child = ChildProcess("tests.fakes.reporting_child")
    try:
        await child.send(pickle.dumps("report"))
        assert await child.receive() == {"collects": False, "arguments": 2}
    finally:
        child.close()
