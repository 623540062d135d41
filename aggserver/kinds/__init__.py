"""The built-in kinds of a server without a cluster: Pods, Secrets, Deployments and the rest of what operators use."""
