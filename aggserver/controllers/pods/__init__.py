"""What `--pods=run` does: makes the Pods of workloads, and has them run without a node."""
