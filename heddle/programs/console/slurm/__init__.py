"""Heddle beside Slurm: the topology that Slurm places jobs by."""
