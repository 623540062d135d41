"""`aggserver envtest`: programs that replace envtest's kube-apiserver, etcd and kubectl.

command          writes the programs into a folder
programs         their text
kube_apiserver   what the kube-apiserver of that folder runs: flags of kube-apiserver to options of `aggserver dev`
flags            maps flags of kube-apiserver to options
etcd             what the etcd of that folder runs
"""
