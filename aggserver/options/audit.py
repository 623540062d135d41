"""Which requests are recorded, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aggserver.options import convert, flag
from aggserver.options.commands import BOTH
from aggserver.options.flag import option

__all__ = ["AuditOptions"]

FORMATS = ("legacy", "json")
MODES = ("batch", "blocking", "blocking-strict")


# ruff: noqa: RUF009  -- option calls dataclasses.field, so its result is a valid default
@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Fields of Options; see the help of each."""

    audit_policy_file: Path | None = option(
        None,
        "audit-policy-file",
        convert.path,
        flag.AUDIT,
        "file of the Policy (audit.k8s.io/v1) that says which requests are recorded; nothing is without one",
        metavar="FILE",
        commands=BOTH,
    )
    audit_log_path: str = option(
        "",
        "audit-log-path",
        convert.text,
        flag.AUDIT,
        "file that audit events are appended to; - is standard output",
        metavar="FILE",
        commands=BOTH,
    )
    audit_log_maxage: int = option(
        366,
        "audit-log-maxage",
        convert.integer,
        flag.AUDIT,
        "days after which rotated audit logs are removed; 0 is no limit",
        metavar="DAYS",
        commands=BOTH,
    )
    audit_log_maxbackup: int = option(
        100,
        "audit-log-maxbackup",
        convert.integer,
        flag.AUDIT,
        "number of rotated audit logs that are kept; 0 is no limit",
        metavar="N",
        commands=BOTH,
    )
    audit_log_maxsize: int = option(
        100,
        "audit-log-maxsize",
        convert.integer,
        flag.AUDIT,
        "megabytes of an audit log, after which a new one is begun; 0 never begins one",
        metavar="MB",
        commands=BOTH,
    )
    audit_log_compress: bool = option(
        False,
        "audit-log-compress",
        convert.boolean,
        flag.AUDIT,
        "compress rotated audit logs with gzip",
        commands=BOTH,
    )
    audit_log_format: str = option(
        "json",
        "audit-log-format",
        convert.one_of(*FORMATS),
        flag.AUDIT,
        "form of an event in the log: json, or legacy for a line of text",
        metavar="FORMAT",
        commands=BOTH,
    )
    audit_log_mode: str = option(
        "blocking",
        "audit-log-mode",
        convert.one_of(*MODES),
        flag.AUDIT,
        "batch: events are written soon; blocking: before the answer; blocking-strict: a request is refused if that fails",
        metavar="MODE",
        commands=BOTH,
    )
    audit_log_batch_buffer_size: int = option(
        10_000,
        "audit-log-batch-buffer-size",
        convert.integer,
        flag.AUDIT,
        "events that may wait for the audit log; others are dropped. Of mode batch, as all batch flags",
        metavar="N",
        commands=BOTH,
    )
    audit_log_batch_max_size: int = option(
        1,
        "audit-log-batch-max-size",
        convert.integer,
        flag.AUDIT,
        "events of one batch; matters only where batches are throttled",
        metavar="N",
        commands=BOTH,
    )
    audit_log_batch_max_wait_seconds: float = option(
        0.0,
        "audit-log-batch-max-wait",
        convert.seconds,
        flag.AUDIT,
        "time after which a batch that is not full is handed to the audit log",
        metavar="DURATION",
        commands=BOTH,
    )
    audit_log_batch_throttle_enable: bool = option(
        False,
        "audit-log-batch-throttle-enable",
        convert.boolean,
        flag.AUDIT,
        "limit the rate of batches to the audit log",
        commands=BOTH,
    )
    audit_log_batch_throttle_qps: float = option(
        0.0,
        "audit-log-batch-throttle-qps",
        convert.rate,
        flag.AUDIT,
        "batches to the audit log per second, on average",
        metavar="RATE",
        commands=BOTH,
    )
    audit_log_batch_throttle_burst: int = option(
        0,
        "audit-log-batch-throttle-burst",
        convert.integer,
        flag.AUDIT,
        "batches to the audit log at once, after it had none",
        metavar="N",
        commands=BOTH,
    )
    audit_log_truncate_enabled: bool = option(
        False,
        "audit-log-truncate-enabled",
        convert.boolean,
        flag.AUDIT,
        "take the objects out of long events for the audit log, and drop those that are too long even so",
        commands=BOTH,
    )
    audit_log_truncate_max_batch_size: int = option(
        10 * 1024 * 1024,
        "audit-log-truncate-max-batch-size",
        convert.integer,
        flag.AUDIT,
        "bytes of a batch for the audit log, beyond which it is split, if truncating is enabled",
        metavar="BYTES",
        commands=BOTH,
    )
    audit_log_truncate_max_event_size: int = option(
        100 * 1024,
        "audit-log-truncate-max-event-size",
        convert.integer,
        flag.AUDIT,
        "bytes of an event for the audit log, if truncating is enabled",
        metavar="BYTES",
        commands=BOTH,
    )
    audit_webhook_config_file: Path | None = option(
        None,
        "audit-webhook-config-file",
        convert.path,
        flag.AUDIT,
        "kubeconfig of the server that audit events are sent to",
        metavar="FILE",
        commands=BOTH,
    )
    audit_webhook_initial_backoff_seconds: float = option(
        10.0,
        "audit-webhook-initial-backoff",
        convert.seconds,
        flag.AUDIT,
        "pause before the second attempt to send audit events",
        metavar="DURATION",
        commands=BOTH,
    )
    audit_webhook_mode: str = option(
        "batch",
        "audit-webhook-mode",
        convert.one_of(*MODES),
        flag.AUDIT,
        "batch: events are sent soon; blocking: requests wait for it; blocking-strict: and are refused if it fails",
        metavar="MODE",
        commands=BOTH,
    )
    audit_webhook_batch_buffer_size: int = option(
        10_000,
        "audit-webhook-batch-buffer-size",
        convert.integer,
        flag.AUDIT,
        "events that may wait for the audit webhook; others are dropped. Of mode batch, as all batch flags",
        metavar="N",
        commands=BOTH,
    )
    audit_webhook_batch_max_size: int = option(
        400,
        "audit-webhook-batch-max-size",
        convert.integer,
        flag.AUDIT,
        "events of one request to the audit webhook",
        metavar="N",
        commands=BOTH,
    )
    audit_webhook_batch_max_wait_seconds: float = option(
        30.0,
        "audit-webhook-batch-max-wait",
        convert.seconds,
        flag.AUDIT,
        "time after which a batch that is not full is handed to the audit webhook",
        metavar="DURATION",
        commands=BOTH,
    )
    audit_webhook_batch_throttle_enable: bool = option(
        True,
        "audit-webhook-batch-throttle-enable",
        convert.boolean,
        flag.AUDIT,
        "limit the rate of batches to the audit webhook",
        commands=BOTH,
    )
    audit_webhook_batch_throttle_qps: float = option(
        10.0,
        "audit-webhook-batch-throttle-qps",
        convert.rate,
        flag.AUDIT,
        "batches to the audit webhook per second, on average",
        metavar="RATE",
        commands=BOTH,
    )
    audit_webhook_batch_throttle_burst: int = option(
        15,
        "audit-webhook-batch-throttle-burst",
        convert.integer,
        flag.AUDIT,
        "batches to the audit webhook at once, after it had none",
        metavar="N",
        commands=BOTH,
    )
    audit_webhook_truncate_enabled: bool = option(
        False,
        "audit-webhook-truncate-enabled",
        convert.boolean,
        flag.AUDIT,
        "take the objects out of long events for the audit webhook, and drop those that are too long even so",
        commands=BOTH,
    )
    audit_webhook_truncate_max_batch_size: int = option(
        10 * 1024 * 1024,
        "audit-webhook-truncate-max-batch-size",
        convert.integer,
        flag.AUDIT,
        "bytes of a batch for the audit webhook, beyond which it is split, if truncating is enabled",
        metavar="BYTES",
        commands=BOTH,
    )
    audit_webhook_truncate_max_event_size: int = option(
        100 * 1024,
        "audit-webhook-truncate-max-event-size",
        convert.integer,
        flag.AUDIT,
        "bytes of an event for the audit webhook, if truncating is enabled",
        metavar="BYTES",
        commands=BOTH,
    )
