"""The numbers that `test_metrics_adapter.py` gives the test-adapter, as an App: copied into the folder of our server."""

from collections.abc import Iterator

from aggserver import App, MetricRequest, Sample

app = App()

# Labels of each pod, and its number.
PODS = {"web-1": ({"app": "web"}, 2.5), "web-2": ({"app": "web"}, 4.0), "db-1": ({"app": "db"}, 100.0)}
# Labels of the metric, and the number.
LATENCY = ({"verb": "GET"}, 0.3)


@app.external_metric("my-external-metric")
def mine(request: MetricRequest[None]) -> Iterator[Sample]:
    yield Sample(42, labels={"foo": "bar"})
    yield Sample(43, labels={"foo": "baz"})


@app.external_metric("other-external-metric")
def other(request: MetricRequest[None]) -> float:
    return 44


@app.custom_metric("pods", "requests-per-second")
def requests(request: MetricRequest[None]) -> dict[str, float]:
    mine = PODS if request.namespace == "default" else {}
    return {name: value for name, (labels, value) in mine.items() if request.objects.matches(labels)}


@app.custom_metric("services", "latency")
def latency(request: MetricRequest[None]) -> dict[str, float]:
    labels, value = LATENCY
    return {"web": value} if request.labels.matches(labels) else {}


@app.custom_metric("nodes", "watts")
def watts(request: MetricRequest[None]) -> dict[str, float]:
    return {"node-1": 120}


@app.custom_metric("namespaces", "cost")
def cost(request: MetricRequest[None]) -> dict[str, float]:
    return {"default": 12}
