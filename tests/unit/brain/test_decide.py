"""The table of handlers has every event once."""

from typing import get_args

from heddle.controller.brain.decide import HANDLERS, TOGETHER
from heddle.controller.model import event, network_event
from heddle.controller.model.event import Event
from heddle.controller.model.traits import Printed


def test_every_event_has_one_handler():
    assert sorted([*HANDLERS, *TOGETHER], key=str) == sorted(get_args(Event), key=str)


def test_every_class_of_event_is_in_the_union():
    modules = {module.__name__: vars(module) for module in (event, network_event)}
    kinds = {kind for names in modules.values() for kind in names.values() if isinstance(kind, type)}
    ours = {kind for kind in kinds if issubclass(kind, Printed) and kind.__module__ in modules}
    assert ours == set(get_args(Event))
