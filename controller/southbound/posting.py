"""Connect the southbound with the control loop: events of switches are posted, the loop's rules are sent."""

import logging
from collections.abc import Mapping

from heddle.controller.model.event import PortStatus, SwitchDown, SwitchUp
from heddle.controller.model.rule import SwitchRules
from heddle.controller.runtime.loop import Loop

_LOG = logging.getLogger("heddle.controller")


class Inbound:
    """Posts events of the southbound to the control loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def switch_up(self, switch_id: str, ports: Mapping[int, bool], installed: SwitchRules) -> None:
        """Post that a switch is connected and ready for rules."""
        self._loop.post(SwitchUp(switch=switch_id, ports=ports, installed=installed), switch_id)

    def switch_suspect(self, switch_id: str) -> None:
        """Log that a switch has not replied to echo requests for a while; its session continues."""
        _LOG.warning("%s: no echo reply", switch_id)

    def switch_recovered(self, switch_id: str) -> None:
        """Log that a suspect switch replies again."""
        _LOG.info("%s: echo replies again", switch_id)

    def switch_down(self, switch_id: str, reason: str) -> None:
        """Post that the session of a switch ended."""
        self._loop.post(SwitchDown(switch=switch_id, reason=reason), switch_id)

    def port_status(self, switch_id: str, port_no: int, up: bool) -> bool:
        """Post that a port went up or down; return False where too many events of the switch wait."""
        return self._loop.post(PortStatus(switch=switch_id, port=port_no, up=up), switch_id)

    def rule_error(self, switch_id: str, text: str) -> None:
        """Log an error that a switch sent outside of any installation."""
        _LOG.warning("%s: %s", switch_id, text)

    def flow_removed(self, switch_id: str) -> None:
        """Log that a switch removed a rule. Ours have no timeout, so another program did it."""
        _LOG.warning("%s: a rule was removed on the switch", switch_id)
