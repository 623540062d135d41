"""The audit of a server, as the --audit flags say: the policy, and where events go.

Without --audit-policy-file there is none, and without a place for events neither; requests then pay nothing for it.
Source: k8s.io/apiserver pkg/server/options/audit.go (ApplyTo), v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aggserver
from aggserver.app.errors import StartError
from aggserver.app.tasks import supervise
from aggserver.audit.backends import AuditObserver, Batching, Buffer, LostEvents, Sink, all_of, blocking, truncating
from aggserver.audit.events import Event, log_line, text_line
from aggserver.audit.log_file import MEGABYTE, LogFile
from aggserver.audit.policy import AuditPolicy, AuditPolicyError
from aggserver.audit.webhook import sending, waiting
from aggserver.cluster.configuration import ConfigurationError
from aggserver.endpoints.auditing import Auditor
from aggserver.endpoints.filters import is_long_running
from aggserver.monitoring.audit import AuditMetrics
from aggserver.monitoring.metrics import Metrics
from aggserver.options import Options

__all__ = ["open_auditor"]

log = logging.getLogger("aggserver.audit")

# Events that a batch for the log has at most where its rate is not limited: the size of batches has no other meaning there.
_WRITTEN_AT_ONCE = 400
# Bytes that such a batch writes at once. A file has a megabyte at least before a new one is begun.
_PIECE_BYTES = 256 * 1024


@asynccontextmanager
async def open_auditor(options: Options, metrics: Metrics) -> AsyncIterator[Auditor | None]:
    """Ends when the events that it still has were delivered, or lost and counted. Raises StartError."""
    policy = _policy(options)
    if policy is None or not (options.audit_log_path or options.audit_webhook_config_file):
        if policy is None and (options.audit_log_path or options.audit_webhook_config_file):
            log.warning("no audit policy file provided, no events will be recorded: --audit-policy-file names one")
        yield None
        return
    async with AsyncExitStack() as stack:
        observer = AuditMetrics(metrics.registry)
        opening = _Opening(options, stack, observer)
        sinks = [await opening.log()] if options.audit_log_path else []
        sinks += [await opening.webhook()] if options.audit_webhook_config_file is not None else []
        waits = options.audit_webhook_config_file is not None and options.audit_webhook_mode != "batch"
        strict = bool(options.audit_log_path) and options.audit_log_mode == "blocking-strict"
        yield Auditor(policy, all_of(sinks), observer, time.time, is_long_running, may_wait=waits or strict)


def _policy(options: Options) -> AuditPolicy | None:
    path = options.audit_policy_file
    if path is None:
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        why = f'failed to read file path "{path}": open {path}: {(error.strerror or "").lower()}'
        raise StartError(f"--audit-policy-file: loading audit policy file: {why}") from None
    try:
        policy = AuditPolicy.read(content)
    except AuditPolicyError as error:
        raise StartError(f"--audit-policy-file: loading audit policy file: {error}: from file {path}") from None
    if policy.warnings:
        texts = ", ".join(policy.warnings)
        log.warning("audit policy contains errors, falling back to lenient decoding: strict decoding error: %s", texts)
    return policy


class _Opening:
    """Opens the backends. stack: closes them, the last opened first."""

    def __init__(self, options: Options, stack: AsyncExitStack, observer: AuditObserver) -> None:
        self._options = options
        self._stack = stack
        self._losses = LostEvents(observer, time.monotonic)

    async def log(self) -> Sink:
        options = self._options
        write = self._writer()
        line = text_line if options.audit_log_format == "legacy" else log_line
        if options.audit_log_mode == "batch":
            thread = ThreadPoolExecutor(1, "audit-log")
            self._stack.callback(thread.shutdown)

            async def deliver(events: Sequence[Event]) -> None:
                content = [line(event) for event in events]
                await asyncio.get_running_loop().run_in_executor(thread, _write_all, write, content)

            throttled = options.audit_log_batch_throttle_enable
            most = options.audit_log_batch_max_size
            batching = Batching(
                buffer_size=options.audit_log_batch_buffer_size,
                max_events=most if throttled else max(most, _WRITTEN_AT_ONCE),
                max_wait_seconds=options.audit_log_batch_max_wait_seconds if most > 1 else 0.0,
                rate=options.audit_log_batch_throttle_qps if throttled else 0.0,
                burst=options.audit_log_batch_throttle_burst,
                max_bytes=options.audit_log_truncate_max_batch_size if options.audit_log_truncate_enabled else 0,
            )
            sink: Sink = await self._buffer(Buffer(deliver, "log", batching, self._losses, clock=time.monotonic, sending=1))
        else:
            strict = options.audit_log_mode == "blocking-strict"
            sink = blocking(lambda event: write(line(event)), "log", self._losses, strict=strict)
        if options.audit_log_truncate_enabled:
            sink = truncating(sink, options.audit_log_truncate_max_event_size, self._losses)
        return sink

    async def webhook(self) -> Sink:
        # Imported only here, since the HTTP library takes a third of the time of a start.
        from aggserver.cluster.client import connect

        options = self._options
        try:
            client = await connect(str(options.audit_webhook_config_file), f"aggserver/{aggserver.__version__}")
        except ConfigurationError as error:
            raise StartError(f"--audit-webhook-config-file: initializing audit webhook: {error}") from None
        self._stack.push_async_callback(client.close)
        initial = options.audit_webhook_initial_backoff_seconds
        deliver = sending(client, initial, sleep=asyncio.sleep, random=random.random)
        truncates = options.audit_webhook_truncate_enabled
        if options.audit_webhook_mode == "batch":
            throttled = options.audit_webhook_batch_throttle_enable
            batching = Batching(
                buffer_size=options.audit_webhook_batch_buffer_size,
                max_events=options.audit_webhook_batch_max_size,
                max_wait_seconds=options.audit_webhook_batch_max_wait_seconds,
                rate=options.audit_webhook_batch_throttle_qps if throttled else 0.0,
                burst=options.audit_webhook_batch_throttle_burst,
                max_bytes=options.audit_webhook_truncate_max_batch_size if truncates else 0,
            )
            sink: Sink = await self._buffer(Buffer(deliver, "webhook", batching, self._losses, clock=time.monotonic))
        else:
            sink = waiting(deliver, self._losses, strict=options.audit_webhook_mode == "blocking-strict")
        return truncating(sink, options.audit_webhook_truncate_max_event_size, self._losses) if truncates else sink

    async def _buffer(self, buffer: Buffer) -> Buffer:
        self._stack.push_async_callback(buffer.close)
        await self._stack.enter_async_context(supervise(("delivery of audit events", buffer.run)))
        return buffer

    def _writer(self) -> Callable[[bytes], None]:
        options = self._options
        path = options.audit_log_path
        if path == "-":
            sys.stdout.flush()
            return _to_stdout
        file = LogFile(
            Path(path),
            max_bytes=options.audit_log_maxsize * MEGABYTE,
            max_backups=options.audit_log_maxbackup,
            max_days=options.audit_log_maxage,
            compress=options.audit_log_compress,
            clock=time.time,
        )
        self._stack.callback(file.close)
        return file.write


def _to_stdout(content: bytes) -> None:
    written = 0
    while written < len(content):
        written += os.write(1, content[written:])


def _write_all(write: Callable[[bytes], None], lines: Sequence[bytes]) -> None:
    """Write the lines in pieces of whole lines, since a file may have to be begun anew between two."""
    piece: list[bytes] = []
    size = 0
    for line in lines:
        if piece and size + len(line) > _PIECE_BYTES:
            write(b"".join(piece))
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    write(b"".join(piece))
