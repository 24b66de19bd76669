"""A plugin of pytest for tests that run beside those of the whole machine: each waits while one has it to itself.

`pytest -p tests.support.beside`. The programs that its tests start do not inherit it, as they would a variable of the
environment: a run of pytest in a test would wait for a test that waits for this one.
"""

from collections.abc import Generator

import pytest

from tests.support.disturbed import machine


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the time limit of the test begins
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Hold the machine beside others while a test runs."""
    with machine(by_itself=False):
        return (yield)
