"""Metrics for autoscalers, and for kubectl top.

kubectl get --raw "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue-depth?labelSelector=queue=mail"
kubectl top nodes
"""

from __future__ import annotations

from aggserver import App, ListRequest, MetricRequest, NodeUsage, Unavailable

DEPTHS = {"mail": 7.5}

app = App()


@app.external_metric("queue-depth")
async def depth(request: MetricRequest[None]) -> float:
    if (waiting := DEPTHS.get(request.labels.exact("queue") or "")) is None:
        raise Unavailable("no sample in the last minute")
    return waiting


@app.custom_metric("pods", "requests-per-second")
def rates(request: MetricRequest[None]) -> dict[str, float]:
    return {"web-1": 2.5, "web-2": 4}


@app.node_metrics
def nodes(request: ListRequest[None]) -> list[NodeUsage]:
    return [NodeUsage("node-1", cpu=0.25, memory=1 << 30)]
