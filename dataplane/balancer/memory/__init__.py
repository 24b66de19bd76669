"""The memory of the balancer's data process between packets: connections and their counts."""
