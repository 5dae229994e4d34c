"""``python -m controlplane.supervisor PLAN_DESCRIPTOR LOCK_DESCRIPTOR``: what `magnetar standalone` becomes once the plan is made.

The command line and the settings need libraries that a supervisor does not; replacing the process leaves them behind.
"""

from __future__ import annotations

import os
import sys

from controlplane.supervisor.loop import Supervisor
from controlplane.supervisor.plan import from_json


def main(arguments: list[str]) -> int:
    plan_descriptor, lock_descriptor = (int(argument) for argument in arguments)
    os.set_inheritable(lock_descriptor, False)
    with open(plan_descriptor, encoding="utf-8") as file:  # noqa: PTH123 (a descriptor, not a path)
        file.seek(0)
        plan = from_json(file.read())
    return Supervisor(plan, lock_descriptor).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
