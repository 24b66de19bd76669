"""Steering by OpenFlow: rules read the path from a flow's source port, or are pins."""
