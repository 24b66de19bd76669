"""The programs `heddle gateway`, `balancer`, `vtep`, `verify` and `explain`: options, commands and metrics."""
