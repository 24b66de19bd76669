"""Version 1 of the contract: `heddle_pb2` (messages), `heddle_pb2_grpc` (services); made by scripts/generate-proto."""
