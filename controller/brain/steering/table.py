"""The steerings, by the fabric's `steered_by`."""

from collections.abc import Mapping

from heddle.controller.brain.steering.interface import Steering
from heddle.controller.brain.steering.openflow.steering import OpenFlowSteering
from heddle.controller.brain.steering.port_search.steering import PortSearchSteering
from heddle.controller.brain.steering.srv6.steering import Srv6Steering
from heddle.controller.model.fabric import Fabric, SteeredBy

STEERINGS: Mapping[SteeredBy, Steering] = {
    SteeredBy.OPENFLOW: OpenFlowSteering(),
    SteeredBy.HASH: PortSearchSteering(),
    SteeredBy.SRV6: Srv6Steering(),
}


def steering_of(fabric: Fabric) -> Steering:
    """Return the steering of a fabric."""
    return STEERINGS[fabric.steered_by]
