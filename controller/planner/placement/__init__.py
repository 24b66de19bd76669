"""Where a job should run: what is free, which hosts and leaves to take, and what each choice costs."""
