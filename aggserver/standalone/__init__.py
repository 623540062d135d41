"""What a server without a cluster needs beside its definitions: namespaces, reviews of oneself, credentials and a kubeconfig."""
