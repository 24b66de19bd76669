"""Demands to paths, on integer arrays: knows nothing of OpenFlow, gRPC or files."""
