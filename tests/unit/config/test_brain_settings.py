"""Every setting of the brain that has a range is a key of the config file, and its value reaches the brain."""

from dataclasses import fields

import pytest

from heddle.controller.brain.settings import RANGES, Settings
from heddle.controller.config.service import ServiceConfig
from heddle.controller.model.cabling import CablingPolicy

BY_OTHER_MEANS = {
    "moves",  # a section of the file
    "cabling",  # a key with words, below
    "acts_on_telemetry", "period_ms",  # follow from the section telemetry
    "is_journaled", "generation_floor",  # of the journal
    "max_suggestions_waiting", "max_previews_waiting", "max_gateways",  # constants
}  # fmt: skip


def test_every_setting_has_a_key_or_is_known_to_have_none():
    assert {field.name for field in fields(Settings)} == RANGES.keys() | BY_OTHER_MEANS


@pytest.mark.parametrize("name", RANGES)
def test_a_key_sets_its_setting_within_its_range(name):
    known = RANGES[name]
    assert getattr(ServiceConfig().of_brain(), name) == getattr(Settings(), name)
    assert getattr(ServiceConfig.model_validate({known.key: known.least}).of_brain(), name) == known.least
    with pytest.raises(ValueError, match=known.key):
        ServiceConfig.model_validate({known.key: known.least - 1})
    if known.most is not None:
        with pytest.raises(ValueError, match=known.key):
            ServiceConfig.model_validate({known.key: known.most + 1})


@pytest.mark.parametrize("policy", CablingPolicy)
def test_the_cabling_policy_is_exclude_and_may_be_another(policy):
    assert ServiceConfig().of_brain().cabling is CablingPolicy.EXCLUDE
    assert ServiceConfig(cabling=policy.value).of_brain().cabling is policy


def test_any_other_cabling_policy_is_refused_in_a_line():
    with pytest.raises(ValueError, match="must be exclude, follow or ignore"):
        ServiceConfig(cabling="maybe")
