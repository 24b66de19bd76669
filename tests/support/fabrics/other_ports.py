"""A fabric whose source ports mean something else, as of a journal in which they were decided otherwise."""

from dataclasses import replace

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.port_layout import SteeringLayout
from heddle.controller.model.steering import layout_of


def with_other_ports(fabric: Fabric) -> Fabric:
    """Return the fabric with every field of its ports two bits lower; the top two bits mean nothing."""
    one, two, three, four = (replace(field, shift=max(0, field.shift - 2)) for field in layout_of(fabric).fields)
    return replace(fabric, port_layout=SteeringLayout(fields=(one, two, three, four)))
