"""The packet elements of a gateway's flow graph, in the order in which a packet meets them."""
