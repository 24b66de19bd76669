"""Mutation testing: plant faults in a copy of the tree and find those that no test notices (`make mutants`)."""
