"""Notices as a list: of a tenant, of one alert rule, of the platform."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict

from admin_ui.row_list import Column, list_rows
from admin_ui.translation.texts import gettext_lazy
from workers.alerts.models import Notice

_COLUMNS = (
    Column("newest", order=("at",), down=True),
    Column("title", gettext_lazy("Notice"), ("title",)),
    Column("at", gettext_lazy("At"), ("at",), down=True),
    Column("sent", gettext_lazy("Sent")),
)


def notices_listed(query: QueryDict, notices: QuerySet[Notice]) -> dict[str, Any]:
    """What `parts/notices.html` takes."""
    listed = list_rows(query, notices, _COLUMNS, searched=("title", "text", "kind"), name="notices-")
    return {"notices": listed.rows, "notices_listed": listed}
