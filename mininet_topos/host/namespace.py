"""Enter the network namespace of a lab's host or router."""

from heddle.foundation.network_namespace import network_namespace

__all__ = ["network_namespace"]
