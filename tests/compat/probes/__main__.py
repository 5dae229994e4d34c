"""`install`: installs the clients. `page`: writes docs/client-matrix.md."""

from __future__ import annotations

import sys

from tests.compat.probes import PAGE, install_all, page

if __name__ == "__main__":
    if sys.argv[1] == "install":
        install_all()
    else:
        PAGE.write_text(page())
