"""Real programs that tests start and end: agents, gateways, balancers, brokers, stores, switches."""
