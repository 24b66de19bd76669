"""What commands use to call a running controller; `heddle.client` is for programs of users."""

from heddle.client.connection import Client, connected
from heddle.client.topology import fabric_of

__all__ = ["Client", "connected", "fabric_of"]
