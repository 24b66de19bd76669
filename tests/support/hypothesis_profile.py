"""The hypothesis settings of every test, loaded on import by each `conftest.py`."""

from hypothesis import HealthCheck, settings

from tests.support.examples import examples

# No deadline: how long an example takes depends on who else uses the machine, and Numba compiles in the first one.
settings.register_profile(
    "heddle",
    max_examples=examples(100),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("heddle")
