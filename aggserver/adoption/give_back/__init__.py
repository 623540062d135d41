"""From our objects back to the host: to its etcd, through its API, or from a backup of our store."""
