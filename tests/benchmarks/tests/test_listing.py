"""The benchmark of listing a namespace, on a small one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import listing

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("benchmarks"), pytest.mark.standalone]


def test_a_namespace_is_listed(tmp_path: Path) -> None:
    section = listing.run(tmp_path, 25, 2, lambda text: None)
    assert [row[0] for row in section.tables[0].rows] == [
        "GET /admin/v2/persistent/public/default",
        "GET /admin/v2/namespaces/public/default/topics",
        "GET /api/v1/tenants/public/namespaces/default/topics?limit=100",
        "GET /api/v1/tenants/public/namespaces/plain/topics?limit=100",
        "GET /api/v1/tenants/public/keys?limit=100",
        "GET /api/v1/tenants/public/audit?limit=100",
        "GET /api/v1/tenants/public/audit?action=topic.a7&limit=100",
        "GET /api/v1/tenants/public/audit?role=nobody&limit=100",
    ]
    assert {figure.target for figure in section.figures} == {listing.TARGET_MS}
    assert all(figure.value > 0 for figure in section.figures) and len(section.figures) == 7
    assert list(tmp_path.iterdir()) == []
