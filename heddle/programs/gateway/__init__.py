"""The programs `heddle gateway` and `heddle verify`: options, commands, configuration file and metrics."""
