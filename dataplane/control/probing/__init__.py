"""Health probes of a balancer's back ends, in a process of their own."""
