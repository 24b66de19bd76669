"""The fabric and its jobs in the forms of schedulers: Slurm and Topograph."""
