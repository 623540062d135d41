"""What only a server without a cluster has: reviews, tokens, checks of who may grant what, a kubeconfig, objects from files."""
