"""The balancer's own elements; it shares the others with the gateway."""
