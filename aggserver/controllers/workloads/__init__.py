"""The controllers of workloads behind `--pods=pending` and `--pods=run`: one module plans for each kind, `controller` writes."""
