"""What runs on a lab: workloads, their queue pairs and rates, and how flows follow a controller's decisions."""
