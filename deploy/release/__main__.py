"""Makes a release of the commit that is checked out: `make release`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from deploy.release.archives import Refused, release


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument(
        "folder", nargs="?", default="dist", type=Path, help="where the files go (dist); archives of before are removed"
    )
    parser.add_argument("--uncommitted", action="store_true", help="of the files as they are, for a trial")
    arguments = parser.parse_args()
    try:
        made = release(arguments.folder, uncommitted=arguments.uncommitted)
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{error}\n{error.stderr or ''}\n")
        return 1
    for path in made:
        sys.stdout.write(f"{path}  {path.stat().st_size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
