"""`heddle lab fabric`: a fabric to play with, and the commands that load, cut and repair it."""
