"""What makes flows take their planned paths: one interface, and a folder for each value of `fabric.steered_by`."""
