"""The slow path: answers to what tenants and routers ask the gateway itself, and the MACs of its neighbours. Pure."""
