"""What a gateway or a balancer is told, as frozen values; the controller imports this of the dataplane, and no more."""
