"""A real Slurm beside Heddle: where its jobs are placed, and what its hooks take."""
