"""What kube-apiserver checks of Pods and of their templates, in its order and with its texts."""
