"""Places where a job could run: own nodes, cluster partitions, cloud instances."""
