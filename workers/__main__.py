import sys

from workers.main import run

sys.exit(run())
