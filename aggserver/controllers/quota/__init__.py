"""ResourceQuotas of a server without a cluster: what the stored objects use, and the status of the quotas."""
