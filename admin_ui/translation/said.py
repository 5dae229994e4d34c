"""What the parts below the console say in English, in the language of the request."""

from __future__ import annotations

from workers.translation.said import lazily_said as lazily_said
from workers.translation.said import said as said
