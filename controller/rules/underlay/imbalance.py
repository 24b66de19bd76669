"""Measure how evenly the underlay spreads unplanned source ports over the choices of each kind of switch."""

from collections import Counter
from typing import NamedTuple

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.port_layout import Stage, SteeringLayout, blocks, imbalance
from heddle.controller.model.steering import stage_down, stage_up
from heddle.controller.rules.underlay.compilation import weights_of


class Imbalance(NamedTuple):
    """Switches (or groups of parallel cables) with equal choices at one stage.

    `places` is their number, `buckets` the number of field values, `blocks` the number of rules; `imbalance` is the
    excess of the most favoured choice over its fair share, 0.03 for 3 %.
    """

    stage: Stage
    choices: int
    places: int
    buckets: int
    blocks: int
    imbalance: float


def imbalances(fabric: Fabric, layout: SteeringLayout) -> tuple[Imbalance, ...]:
    """Return one entry for every different set of choices in the fabric, by stage and number of choices."""
    places: Counter[tuple[Stage, tuple[int, ...]]] = Counter()
    for switch in fabric.switches:
        places[stage_up(switch.role), weights_of(fabric.up_choices[switch.id])] += 1
        for group in fabric.down_groups.get(switch.id, ()):
            places[stage_down(switch.role), weights_of(group.cables)] += 1
    return tuple(
        _line(layout, stage, weights, count) for (stage, weights), count in sorted(places.items()) if len(weights) > 1
    )


def _line(layout: SteeringLayout, stage: Stage, weights: tuple[int, ...], places: int) -> Imbalance:
    field = layout.fields[stage]
    return Imbalance(
        stage=stage,
        choices=len(weights),
        places=places,
        buckets=1 << field.width,
        blocks=len(blocks(weights, field)),
        imbalance=imbalance(weights, field.width),
    )
