"""The test-adapter of custom-metrics-apiserver, beside which the metrics of an App are compared."""
