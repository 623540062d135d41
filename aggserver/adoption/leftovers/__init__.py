"""The leftovers: what a move leaves in the cluster's etcd, and its removal when somebody asks for it."""
