"""The `heddle` command."""
