"""The settings of the benchmarks' tests."""

from tests.support import hypothesis_profile  # noqa: F401 - loads the profile
