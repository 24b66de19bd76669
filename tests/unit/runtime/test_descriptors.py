"""File descriptors are shared among the ports."""

import asyncio
import errno

from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.runtime.limits.descriptors import HTTP, OWN, places, report_shortage


@given(st.integers(400, 1_000_000), st.integers(1, 20_000), st.integers(1, 65_536))
def test_all_ports_together_leave_the_process_its_own_descriptors(descriptors, switches, grpc):
    found = places(descriptors, switches, grpc)
    assert found.openflow + found.grpc + HTTP + OWN <= descriptors
    assert 0 < found.grpc <= grpc
    assert 0 < found.strangers <= found.openflow


def test_with_plenty_every_switch_has_a_place_and_strangers_theirs():
    found = places(1 << 20, 20_000, 4_096)
    assert found == (20_000 + 1_024, 1_024, 4_096)


def test_1024_descriptors_are_enough_for_a_site_of_192_switches():
    found = places(1_024, 192, 4_096)
    assert found.openflow >= 192 + 64
    assert found.grpc >= 200


async def test_a_connection_without_a_descriptor_is_a_line_and_a_bug_keeps_its_traceback(caplog):
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report_shortage)
    try:
        for fault in (OSError(errno.EMFILE, "Too many open files"), RuntimeError("a bug")):
            loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": fault})
    finally:
        loop.set_exception_handler(None)
    shortage, bug = caplog.records
    assert (shortage.getMessage(), shortage.exc_info) == (
        "a connection waits: Too many open files (LimitNOFILE, ulimit -n)", None,
    )  # fmt: skip
    assert bug.exc_info is not None
