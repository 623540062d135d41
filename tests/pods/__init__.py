"""`make fuzz` with Pods: valid ones, spoiled ones and workloads, which kube-apiserver and aggserver must judge alike."""
