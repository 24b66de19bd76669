"""Two gateways that do each other's work when one fails: who serves what, and copies of connections. Pure."""
