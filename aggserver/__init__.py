"""aggserver: an extension API server for the Kubernetes aggregation layer.

The public names are these; everything else may change between releases.
"""

from aggserver.meta.errors import StatusError

__all__ = ["StatusError", "__version__"]

__version__ = "0.1.0"
