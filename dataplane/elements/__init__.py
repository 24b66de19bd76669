"""The packet code that a gateway and a balancer share: headers, fragments, next hops, and the memory of these."""
