import os

import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.demo.measurement_lock import measurement_lock


def test_a_second_demo_is_refused_with_the_id_of_the_measuring_process(tmp_path):
    lock = tmp_path / "demo.lock"
    with (
        measurement_lock(lock, 0, print),
        pytest.raises(PrerequisiteError, match=f"process {os.getpid()}"),
        measurement_lock(lock, 0, print),
    ):
        pass


def test_a_second_demo_that_may_wait_logs_it_before_it_gives_up(tmp_path):
    lock, lines = tmp_path / "demo.lock", []
    with (
        measurement_lock(lock, 0, print),
        pytest.raises(PrerequisiteError, match="another demo is measuring"),
        measurement_lock(lock, 0.01, lines.append),
    ):
        pass
    assert len(lines) == 1
    assert "waiting for it to end" in lines[0]


def test_the_lock_is_free_again_when_its_holder_fails(tmp_path):
    lock = tmp_path / "demo.lock"
    with pytest.raises(ValueError, match="broken"), measurement_lock(lock, 0, print):
        raise ValueError("broken")
    with measurement_lock(lock, 0, print):
        pass
