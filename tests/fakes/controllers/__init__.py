"""Controllers with a planted fault, as programs that take the command line of `heddle run`."""
