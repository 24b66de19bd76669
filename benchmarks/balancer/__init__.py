"""The load balancer beside plain forwarding, HAProxy, nginx and Linux, and under change and attack."""
