"""The table of the loop's methods has every effect, but the one that the gate passes to the journal."""

from typing import get_args

from heddle.controller.model.effect import Effect, Persist
from heddle.controller.runtime.journal.gate import Gate
from heddle.controller.runtime.loop import _PERFORM


def test_every_effect_has_one_method():
    assert set(_PERFORM) == set(get_args(Effect)) - {Persist}


def test_the_gate_performs_no_write_to_the_journal():
    assert not Gate().passes(Persist(values={}))
