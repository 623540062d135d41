"""Parts of a server without a cluster alone: reviews, tokens, checks of who may grant what, a kubeconfig, objects from files."""
