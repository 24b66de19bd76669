"""A back end is up after `rise` successes in a row, down after `fall` failures; a new one is up after one success."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.balancer.health import Health, probed
from heddle.dataplane.config.balancers import HealthCheck

checks = st.builds(HealthCheck, rise=st.integers(1, 5), fall=st.integers(1, 5))


@given(check=checks, results=st.lists(st.booleans(), max_size=60))
def test_only_rise_successes_or_fall_failures_in_a_row_change_the_state(check, results):
    health, history = Health(), []
    for success in results:
        before, health = health, probed(health, check, success)
        history.append(success)
        if health.is_up != before.is_up:
            assert health.is_up == success
            needed = check.fall if before.is_up else (check.rise if before.was_up else 1)
            assert history[-needed:] == [success] * needed
            history = []
        else:
            tail = history[::-1].index(not success) if (not success) in history else len(history)
            needed = check.fall if health.is_up else (check.rise if health.was_up else 1)
            assert success == health.is_up or tail < needed


@given(check=checks, failures=st.integers(0, 20))
def test_a_new_back_end_is_closed_until_its_first_success(check, failures):
    health = Health()
    for _ in range(failures):
        health = probed(health, check, False)
        assert not health.is_up
    assert probed(health, check, True).is_up
