"""What the balancer's data process keeps between packets: connections and their counts."""
