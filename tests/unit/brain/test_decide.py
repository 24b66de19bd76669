"""The table of handlers has every event once."""

from typing import get_args

from heddle.controller.brain.decide import HANDLERS, TOGETHER
from heddle.controller.model import event
from heddle.controller.model.event import Event
from heddle.controller.model.traits import Printed


def test_every_event_has_one_handler():
    assert sorted([*HANDLERS, *TOGETHER], key=str) == sorted(get_args(Event), key=str)


def test_every_class_of_event_is_in_the_union():
    kinds = {kind for kind in vars(event).values() if isinstance(kind, type) and issubclass(kind, Printed)}
    assert {kind for kind in kinds if kind.__module__ == event.__name__} == set(get_args(Event))
