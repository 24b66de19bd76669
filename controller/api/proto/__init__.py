"""The public gRPC contract and the stubs generated from it; imports nothing of ours, so every package may import it."""
