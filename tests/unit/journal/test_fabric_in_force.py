"""Of several controllers one whose file lacks parts of the fabric in force leads with that fabric."""

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.runtime.fabric_apply import FabricChangedError, use_that_in_force
from heddle.controller.runtime.journal.restart import remember_fabric
from tests.support.fabrics.grown_files import LEAF_MORE, YARD
from tests.unit.journal.test_another_fabric import Held, fabric_of


def in_force(text: str) -> Held:
    store = Held()
    remember_fabric(begin(fabric_of(text)), store)
    return store


def test_a_file_of_before_the_change_is_not_used():
    with pytest.raises(FabricChangedError) as why:
        use_that_in_force(fabric_of(YARD), in_force(LEAF_MORE))
    assert why.value.life.fabric == fabric_of(LEAF_MORE)


@pytest.mark.parametrize("text", [YARD, LEAF_MORE], ids=["the same", "a leaf more"])
def test_a_file_with_all_parts_is_used(text):
    use_that_in_force(fabric_of(text), in_force(YARD))
