"""The controller of CronJobs: `plan` decides, `controller` writes."""
