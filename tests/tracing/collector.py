"""A collector of OpenTelemetry in the test's process: OTLP over gRPC."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator
from concurrent import futures
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Received(NamedTuple):
    """One span. Ids are in hexadecimal."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    attributes: dict[str, Any]
    links: list[tuple[str, str]]


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self) -> None:
        self.arrived: queue.Queue[Received] = queue.Queue()
        self.endpoint = ""

    def Export(self, request: Any, context: Any) -> Any:
        for resource in request.resource_spans:
            service = _attributes(resource.resource.attributes).get("service.name", "")
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.arrived.put(
                        Received(
                            service,
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            _attributes(span.attributes),
                            [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                        )
                    )
        return trace_service_pb2.ExportTraceServiceResponse()


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    collector.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()
