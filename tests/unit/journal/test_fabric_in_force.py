"""Of several controllers each leads with the fabric in force, whatever its file holds: the file is the seed alone."""

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.model.error import InputError
from heddle.controller.runtime.fabric_apply import FabricChangedError, use_that_in_force
from heddle.controller.runtime.journal.fitting import WHOLE
from heddle.controller.runtime.journal.restart import remember_fabric
from tests.support.fabrics.grown_files import LEAF_MORE, SLOWER, YARD
from tests.unit.journal.test_another_fabric import Held, fabric_of


def in_force(text: str) -> Held:
    store = Held()
    remember_fabric(begin(fabric_of(text)), store)
    return store


@pytest.mark.parametrize("text", [LEAF_MORE, SLOWER, YARD + "failed: [spine1]\n"], ids=["more", "slower", "failed"])
@pytest.mark.parametrize("is_first", [True, False], ids=["file of before", "file of after"])
def test_a_file_that_differs_gives_way_to_the_fabric_in_force(text, is_first, caplog):
    file, kept = (YARD, text) if is_first else (text, YARD)
    with pytest.raises(FabricChangedError) as why:
        use_that_in_force(fabric_of(file), in_force(kept))
    assert why.value.life.fabric == fabric_of(kept)
    (line,) = caplog.messages
    assert "`heddle fabric apply` changes the fabric in force" in line


def test_the_same_file_is_used_and_so_is_any_where_nothing_is_in_force_yet(caplog):
    use_that_in_force(fabric_of(YARD), in_force(YARD))
    use_that_in_force(fabric_of(YARD), Held())
    assert caplog.messages == []


def test_a_fabric_in_force_that_is_damaged_is_one_line_with_a_remedy():
    store = in_force(YARD)
    store.write({WHOLE: b"\0"})
    with pytest.raises(InputError, match="heddle state restore"):
        use_that_in_force(fabric_of(YARD), store)
