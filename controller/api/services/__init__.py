"""The gRPC services: each method reads its request, posts an event or reads the state, and renders the reply."""
