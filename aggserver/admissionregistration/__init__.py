"""The API group admissionregistration.k8s.io: webhook configurations, policies and their bindings, validated and served.

Their effect on requests is decided by the plugins in `admission/`, which read the stored objects as plain JSON.
"""
