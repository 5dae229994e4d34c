"""Which settings a producer wants, from what it sends; and which of its settings contradict each other. Pure.

The rules are those of the pipeline. A batch has to fit what may be pending twice, so that the next fills while one waits for its
receipt. It ends by its size where there is enough traffic, and by its delay where there is not. Whatever fits no batch limit is
not worth waiting for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from messaging.client.producing.batches import OVERHEAD_BYTES
from messaging.client.producing.options import BatchLimits, ProducerOptions
from messaging.errors import InvalidValue

PENDING_MIN, PENDING_MAX = 1000, 2000
BATCH_BYTES_MAX = 1 << 20
DELAY_MS_MIN, DELAY_MS_MAX = 1.0, 100.0
DELAY_MS_ABOVE_0 = 0.001  # instead of no delay
MEMORY_BYTES_MIN, MEMORY_BYTES_MAX = 16 << 20, 256 << 20
COMPRESSED_FROM_BYTES = 512  # of a batch: less has no repetition to save
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Traffic:
    """`message_bytes`: of a message on average, before compression. `messages_per_s`: of the whole producer. `latency_ms`: how
    long a message may wait for others. `keyed`: messages have keys, so that each partition fills its own batch."""

    message_bytes: int
    messages_per_s: float
    partitions: int = 1
    latency_ms: float = 10.0
    keyed: bool = False

    def __post_init__(self) -> None:
        if not (self.message_bytes >= 1 and self.partitions >= 1 and self.messages_per_s > 0 and self.latency_ms > 0):
            raise InvalidValue("message size, rate, partitions and latency are positive numbers")

    @property
    def messages_in_a_delay(self) -> float:
        """That one open batch gets within `latency_ms`."""
        per_batch = self.messages_per_s / self.partitions if self.keyed else self.messages_per_s
        return per_batch * self.latency_ms / 1000


@dataclass(frozen=True, slots=True)
class Setting:
    """An argument of `Client.producer`, or of `connect` for ``memory_bytes_max``."""

    name: str
    value: int | float | str | bool
    reason: str


@dataclass(frozen=True, slots=True)
class Advice:
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]

    def as_arguments(self) -> dict[str, Any]:
        return {setting.name: setting.value for setting in self.settings}


def advise(traffic: Traffic) -> Advice:
    """The settings for `traffic`, each with its reason, and what to know about them."""
    delay_ms = min(DELAY_MS_MAX, max(DELAY_MS_MIN, traffic.latency_ms))
    expected = replace(traffic, latency_ms=delay_ms).messages_in_a_delay
    pending = int(min(PENDING_MAX, max(PENDING_MIN, 4 * expected)))
    batch_messages = pending // 2
    wanted = pending * traffic.partitions * traffic.message_bytes
    memory = min(MEMORY_BYTES_MAX, max(MEMORY_BYTES_MIN, wanted))
    batch_bytes = max(traffic.message_bytes + OVERHEAD_BYTES, min(BATCH_BYTES_MAX, memory // traffic.partitions // 2))
    filled = min(expected, batch_messages, batch_bytes / (traffic.message_bytes + OVERHEAD_BYTES))
    batching = filled >= 1.5
    settings = [
        Setting("pending_max", pending, "of a partition: the more is sent in the time of a receipt, the more; 1000 to 2000"),
        Setting(
            "pending_across_partitions_max",
            pending * traffic.partitions,
            f"{pending} for each of {traffic.partitions} partitions, so that this limit is never the first",
        ),
        Setting("memory_bytes_max", memory, f"what may be pending has {wanted / MIB:.1f} MiB; between 16 and 256 MiB for a client"),
    ]
    if batching:
        settings += [
            Setting(
                "batch_messages_max", batch_messages, "half of pending_max: one batch fills while the other has no receipt yet"
            ),
            Setting("batch_bytes_max", batch_bytes, "half of a partition's share of the memory, and 1 MiB at most"),
            Setting("batch_delay_ms", delay_ms, f"the latency that is accepted; about {filled:.0f} messages come in that time"),
        ]
    else:
        why = f"only {expected:.1f} messages come in {delay_ms:g} ms: a batch would wait for nothing"
        settings.append(Setting("batching", False, why))
    if max(1.0, filled) * traffic.message_bytes >= COMPRESSED_FROM_BYTES:
        settings.append(Setting("compression", "zstd", "of whole batches: the larger they are, the better"))
    else:
        settings.append(Setting("compression", "none", "so few bytes have nothing to save"))
    if not traffic.keyed and traffic.partitions > 1:
        settings.append(Setting("routing", "round_robin", "changes the partition with each batch, so that batches fill"))
    return Advice(tuple(settings), tuple(_about(traffic, wanted, memory, delay_ms)))


def filled(traffic: Traffic, advice: Advice) -> float:
    """How many messages a batch has with these settings; 1 without batches."""
    arguments = advice.as_arguments()
    if "batch_messages_max" not in arguments:
        return 1.0
    limits = BatchLimits(arguments["batch_messages_max"], arguments["batch_bytes_max"], arguments["batch_delay_ms"])
    return _filled(traffic, limits, limits.messages_max)


def filled_by(options: ProducerOptions, traffic: Traffic) -> float:
    """The same with the settings that a producer has."""
    return 1.0 if options.batch is None else _filled(traffic, options.batch, _pending(options, traffic.partitions))


def _filled(traffic: Traffic, limits: BatchLimits, pending: int) -> float:
    expected = replace(traffic, latency_ms=max(limits.delay_ms, DELAY_MS_ABOVE_0)).messages_in_a_delay
    fitting = limits.bytes_max / (traffic.message_bytes + OVERHEAD_BYTES)
    return float(max(1.0, min(expected, limits.messages_max, fitting, pending)))


def _pending(options: ProducerOptions, partitions: int) -> int:
    """Messages of one partition that may be without a receipt."""
    return max(1, min(options.pending_max, options.pending_across_partitions_max // partitions))


def _about(traffic: Traffic, wanted: int, memory: int, delay_ms: float) -> list[str]:
    warnings = []
    if wanted > memory:
        warnings.append(
            f"{wanted / MIB:.0f} MiB would be pending at most and {memory / MIB:.0f} MiB are allowed: memory is the first limit, "
            "so use a client of its own for this producer"
        )
    if traffic.latency_ms > delay_ms:
        warnings.append(f"a batch that waits longer than {delay_ms:g} ms gains little: {traffic.latency_ms:g} ms were accepted")
    if traffic.latency_ms < delay_ms:
        warnings.append(f"{traffic.latency_ms:g} ms are less than a receipt takes: {delay_ms:g} ms is the shortest delay of use")
    if traffic.keyed and traffic.messages_in_a_delay < 2 <= replace(traffic, keyed=False).messages_in_a_delay:
        warnings.append(
            f"keys spread the traffic over {traffic.partitions} partitions, so that batches stay small: "
            "use fewer partitions, or accept more latency"
        )
    if traffic.message_bytes > 5 << 20:
        warnings.append("messages are larger than the broker takes by default: use chunking=True, which needs batching=False")
    return warnings


def contradictions(options: ProducerOptions, memory_bytes_max: int, traffic: Traffic | None = None) -> list[str]:
    """Why settings that are valid do not do what they say; with `traffic`, also what will never happen at its rate."""
    limits = options.batch
    partitions = 1 if traffic is None else traffic.partitions
    effective = _pending(options, partitions)
    warnings = []
    if effective < options.pending_max:
        warnings.append(
            f"pending_max = {options.pending_max} never counts: pending_across_partitions_max = "
            f"{options.pending_across_partitions_max} leaves {effective} for each of {partitions} partitions"
        )
    if limits is None:
        return warnings
    if limits.messages_max > effective:
        warnings.append(
            f"a batch can never have batch_messages_max = {limits.messages_max} messages, because only {effective} of a "
            "partition may be pending: it always waits for its delay"
        )
    elif limits.messages_max > effective // 2 and limits.messages_max > 1:
        warnings.append(
            f"a batch of {limits.messages_max} takes more than half of the {effective} that may be pending: the next waits for it"
        )
    if limits.bytes_max > memory_bytes_max:
        warnings.append(f"memory_bytes_max = {memory_bytes_max} holds less than one batch of batch_bytes_max = {limits.bytes_max}")
    if options.send_timeout_s and limits.delay_ms / 1000 >= options.send_timeout_s:
        warnings.append(f"a batch may wait {limits.delay_ms:g} ms, and its messages time out after {options.send_timeout_s:g} s")
    if traffic is not None:
        warnings.extend(_never(limits, traffic))
    return warnings


def _never(limits: BatchLimits, traffic: Traffic) -> list[str]:
    expected = replace(traffic, latency_ms=max(limits.delay_ms, DELAY_MS_ABOVE_0)).messages_in_a_delay
    if expected < 1.5:
        return [
            f"only {expected:.1f} messages come in batch_delay_ms = {limits.delay_ms:g}: "
            "batches have one message, and wait for nothing"
        ]
    if limits.bytes_max < 2 * (traffic.message_bytes + OVERHEAD_BYTES):
        return [f"batch_bytes_max = {limits.bytes_max} holds one message of {traffic.message_bytes} bytes"]
    return []
