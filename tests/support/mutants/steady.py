"""A pytest plugin for trials of mutants: the same examples each time, none kept, none made smaller."""

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load after the profile of every test: failing at all is what counts."""
    settings.register_profile(
        "mutants",
        settings.get_profile("heddle"),
        derandomize=True,
        database=None,
        print_blob=False,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile("mutants")
