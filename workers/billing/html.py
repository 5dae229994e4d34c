"""An invoice as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.template.loader import render_to_string

from workers.billing.present import present


def invoice_html(document: Mapping[str, Any]) -> str:
    return render_to_string("workers/invoice.html", {"shown": present(document), "number": document["number"]})
