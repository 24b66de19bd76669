"""`heddle bench cabling` on a small fabric: what is planted is found, and counted once a seed."""

import pytest

from heddle.benchmarks.fabric.cabling import SEEDS, Case, measured
from heddle.benchmarks.planning.cases import fabric_of

FABRIC = fabric_of(kind="spine_leaf", spines=4, leaves=6, hosts_per_leaf=4)


@pytest.mark.parametrize("counts", [{"exchanged": 2}, {"missing": 3, "moved": 1}], ids=["exchanged", "missing"])
def test_every_planted_cause_is_named_as_planted_and_no_other_is(counts):
    row = measured(FABRIC, Case(title="", counts=counts))
    assert row["planted"] == row["as_planted"] == row["causes"] == SEEDS * sum(counts.values())
    assert row["worst_s"] > 0


def test_a_sound_fabric_has_no_cause_and_what_is_lost_is_unknown():
    sound = measured(FABRIC, Case(title="", counts={}))
    assert sound == {**dict.fromkeys(sound, 0), "worst_s": sound["worst_s"]}
    lossy = measured(FABRIC, Case(title="", counts={}, lost=0.3, silent_switch=True))
    assert (lossy["causes"], lossy["wrong"]) == (0, 0)
    assert lossy["unknown"] > 0
