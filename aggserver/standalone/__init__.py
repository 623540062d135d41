"""The parts that only a server without a cluster needs: namespaces, self reviews, a kubeconfig, and objects from files."""
