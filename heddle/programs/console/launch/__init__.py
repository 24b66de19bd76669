"""`heddle exec`: run a node's command of a job with the source ports of planned paths."""
