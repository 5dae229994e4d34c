"""What the check of our dependencies makes of an answer. (`make audit` asks the database itself.)"""

from __future__ import annotations

import datetime
from typing import Any

from tests.audit import allowed, judge

TODAY = datetime.date(2026, 6, 1)
ADVISORY = {"id": "PYSEC-2026-1", "aliases": ["CVE-2026-1"], "fix_versions": ["2.1"]}


def report(*vulns: dict[str, Any]) -> dict[str, Any]:
    return {
        "dependencies": [{"name": "lib", "version": "2.0", "vulns": list(vulns)}, {"name": "other", "version": "1", "vulns": []}]
    }


def test_an_advisory_fails_the_check_and_says_what_mends_it() -> None:
    assert judge(report(ADVISORY), {}, TODAY).problems == ["lib 2.0: PYSEC-2026-1 (CVE-2026-1; fixed in 2.1)"]
    assert judge(report(), {}, TODAY) == ([], [], 2)


def test_an_advisory_allowed_by_any_of_its_names_does_not_fail_until_its_day() -> None:
    entry = {"CVE-2026-1": {"reason": "not used", "until": TODAY}}
    assert judge(report(ADVISORY), entry, TODAY).problems == []
    assert judge(report(ADVISORY), entry, TODAY + datetime.timedelta(days=1)).problems == [
        "CVE-2026-1 was allowed until 2026-06-01: look at it again"
    ]


def test_an_allowed_advisory_that_is_gone_is_taken_out() -> None:
    entry = {"CVE-2026-1": {"reason": "not used", "until": TODAY}}
    assert judge(report(), entry, TODAY).problems == ["CVE-2026-1 is allowed and not found any more: take it out"]


def test_a_package_that_could_not_be_looked_up_is_unknown() -> None:
    verdict = judge({"dependencies": [{"name": "lib", "skip_reason": "not reached"}]}, {"CVE-2026-1": {}}, TODAY)
    assert verdict == ([], ["lib"], 0)


def test_every_allowed_advisory_has_a_reason_and_a_day() -> None:
    allowed()
