"""Export: sends spans to a collector by OTLP over gRPC. The only module that imports OpenTelemetry.

OpenTelemetry's batch processor sends from a thread of its own: a collector that hangs or is away holds up no request. At most
QUEUE spans wait for it; more are dropped.
Source: k8s.io/component-base tracing/utils.go (NewProvider), v0.36.3.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags

from aggserver.tracing.tracer import Span

__all__ = ["Exporter"]

# Spans that wait to be sent, some 2 KB each; upstream has as many.
QUEUE = 2048
BATCH = 512
DELAY_MS = 1000  # a trace is seen soon after its request
TIMEOUT_SECONDS = 5
# Seconds that the end of the server waits for the last spans.
END_SECONDS = 2.0

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Exporter:
    """endpoint: host and port, or another target of gRPC. instance: names this server among others of the service."""

    def __init__(self, endpoint: str, version: str, instance: str) -> None:
        attributes = {"service.name": "aggserver", "service.version": version, "service.instance.id": instance}
        self._resource = Resource(attributes)
        self._scope = InstrumentationScope("aggserver", version)
        self._sender = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=TIMEOUT_SECONDS)
        self._processor = BatchSpanProcessor(
            self._sender,
            max_queue_size=QUEUE,
            schedule_delay_millis=DELAY_MS,
            max_export_batch_size=BATCH,
            export_timeout_millis=1000 * TIMEOUT_SECONDS,
        )

    def export(self, spans: Sequence[Span]) -> None:
        for span in spans:
            self._processor.on_end(self._readable(span))

    def close(self) -> None:
        """Send what waits, for END_SECONDS at most."""
        closing = threading.Thread(target=self._processor.shutdown, name="tracing-close", daemon=True)
        closing.start()
        closing.join(END_SECONDS)
        # Ends the call that a hanging collector does not answer, and all attempts to repeat it.
        self._sender.shutdown()
        closing.join(END_SECONDS)

    def _readable(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(span.trace, span.span, is_remote=False),
            parent=_context(span.trace, span.parent, is_remote=span.server) if span.parent else None,
            resource=self._resource,
            attributes=dict(span.attributes),
            links=[Link(_context(*span.linked, is_remote=True))] if span.linked else (),
            kind=SpanKind.SERVER if span.server else SpanKind.INTERNAL,
            instrumentation_scope=self._scope,
            start_time=span.start,
            end_time=span.end,
        )


def _context(trace: str, span: str, *, is_remote: bool) -> SpanContext:
    return SpanContext(int(trace, 16), int(span, 16), is_remote, _SAMPLED)
