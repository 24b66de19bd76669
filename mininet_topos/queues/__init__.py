"""The queue model of the lab's switch ports: eight priorities, ECN marking, PFC, and exact byte counters."""
