"""Decide by probes whether a back end is up (rise and fall): a pure state machine.

    down, never up --1 success--> up --`fall` failures in a row--> down --`rise` successes in a row--> up

A new back end is closed until its first success, so a service whose probes are wrong never gets traffic by accident.
"""

from dataclasses import dataclass

from heddle.dataplane.config.balancers import HealthCheck


@dataclass(frozen=True, slots=True)
class Health:
    """What the probes of a back end have shown; the initial value is that of a new one."""

    is_up: bool = False
    was_up: bool = False
    streak: int = 0
    """Results in a row that contradict `is_up`."""


def probed(health: Health, check: HealthCheck, success: bool) -> Health:
    """Return the health after one more probe."""
    if success == health.is_up:
        return Health(health.is_up, health.was_up)
    needed = check.fall if health.is_up else (check.rise if health.was_up else 1)
    if health.streak + 1 < needed:
        return Health(health.is_up, health.was_up, health.streak + 1)
    return Health(success, health.was_up or success)
