"""What the operating system says of this process."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def resident_bytes() -> int:
    """Resident memory now; the peak where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
