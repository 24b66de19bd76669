"""Settings of every test."""

import pytest

from tests.support import hypothesis_profile  # noqa: F401 - loads the profile

COMPILED = {
    "tests.fakes.gateway.elements": "elements",
    "tests.fakes.gateway.state_bench": "state",
    "tests.fakes.gateway.gateway_bench": "gateway",
    "tests.fakes.gateway.tenant_traffic": "gateway",
    "tests.fakes.gateway.gateway_loop": "loop",
}
"""Modules whose kernels take long to compile in a fresh tree, and whose tests go to one worker together."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have each of those compiled by one worker (`--dist loadgroup`): two that begin at once would both do it all."""
    groups: dict[object, list[str]] = {}
    for item in items:
        module = getattr(item, "module", None)
        if module not in groups:
            used = {getattr(thing, "__module__", None) for thing in vars(module).values()} if module else set()
            groups[module] = sorted({group for name, group in COMPILED.items() if name in used})
        for group in groups[module][:1]:
            item.add_marker(pytest.mark.xdist_group(group))
