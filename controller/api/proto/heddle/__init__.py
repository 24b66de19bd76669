"""The contract's protobuf package `heddle`."""
