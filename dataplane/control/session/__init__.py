"""The gRPC session of a gateway or host with its controller."""
