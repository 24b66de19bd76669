"""The `heddle gateway` and `heddle verify` programs: configuration file, commands and metrics."""
