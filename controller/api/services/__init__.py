"""The gRPC services: each method reads its request, asks the loop, and renders the reply."""
