"""What a change of policies would have done, as rows for the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from messaging.history.what_if import REPLAYED, Outcome
from messaging.policies.registry import POLICIES
from messaging.policies.texts import is_size
from tenants.history.spans import DEFAULT
from tenants.history.what_if import PolicyFinding, PolicyWhatIf

SPANS = ("24h", "7d", "30d")
ROWS_SHOWN = 20
_RATES = (Outcome.PUBLISHING_HELD, Outcome.DELIVERY_HELD)


@dataclass(frozen=True)
class Row:
    """`place`: whose it is, "" for the whole of what the page is about. `form`: of the limit and what was seen, for `in_form`."""

    finding: PolicyFinding
    title: str
    place: str
    form: str
    over: int

    @property
    def exact(self) -> bool:
        """Whether both bounds read as the same."""
        return round(self.finding.at_least_seconds) == round(self.finding.at_most_seconds)


@dataclass(frozen=True)
class WhatIfRows:
    """`rows`: what would have happened; `calm`: of so many limits nothing; `further`: rows that are not shown."""

    found: PolicyWhatIf
    span: str
    rows: Sequence[Row]
    calm: int
    calm_row: Row | None
    further: int
    unknown: Sequence[str]
    known_part: float


def shown(found: PolicyWhatIf, span: str, span_seconds: float) -> WhatIfRows:
    happened = [finding for finding in found.findings if finding.at_most_seconds > 0]
    calm = [finding for finding in found.findings if finding.at_most_seconds <= 0]
    nearest = max(calm, key=lambda each: (each.most_seen or 0) / each.limit if each.limit else 0, default=None)
    return WhatIfRows(
        found,
        span,
        [_row(finding) for finding in happened[:ROWS_SHOWN]],
        len(calm),
        _row(nearest) if nearest is not None else None,
        len(happened) - ROWS_SHOWN if len(happened) > ROWS_SHOWN else 0,
        [POLICIES[name].title for name in found.unknown],
        found.known_seconds / span_seconds,
    )


def span_asked(text: str) -> str:
    return text if text in SPANS else DEFAULT


def _row(finding: PolicyFinding) -> Row:
    policy = POLICIES[finding.policy]
    local = finding.topic.rpartition("/")[2]
    place = f"{local} · {finding.subscription}" if finding.subscription else local or finding.namespace
    if REPLAYED[finding.policy].of_time:
        form = "span"
    elif is_size(policy):
        form = "throughput" if finding.outcome in _RATES else "size"
    elif finding.policy.endswith("_bytes") and finding.outcome in _RATES:
        form = "throughput"
    else:
        form = "rate" if finding.outcome in _RATES else "count"
    return Row(finding, policy.title, place, form, max(0, int((finding.most_seen or 0) - finding.limit)))
