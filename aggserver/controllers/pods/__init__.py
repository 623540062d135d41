"""The controllers behind `--pods=run`: create the Pods of workloads, and show them as running without a node."""
