"""A process of its own reads types for the first time with several threads at once: what may go wrong ends it."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from messaging.json_types import decoder_of

# Annotations are texts, as in our sources: evaluating them lets other threads run.
_READS = """
import sys, threading
from typing import Annotated
import msgspec
from messaging.json_types import converted, decoder_of

sys.setswitchinterval(1e-6)
NAMES = [f"field_{number}" for number in range(12)]
TEXT = "Annotated[dict[str, list[int]], msgspec.Meta(max_length=100)] | None"
body = msgspec.json.encode({NAMES[-1]: {"a": [1]}})
for _ in range(150):
    fields = {"__annotations__": dict.fromkeys(NAMES, TEXT), "__module__": "__main__"} | dict.fromkeys(NAMES)
    Within = type(msgspec.Struct)("Within", (msgspec.Struct,), fields)

    class Around(msgspec.Struct):
        within: "Within"

    together = threading.Barrier(4)

    def read(kind, data):
        together.wait()
        READ

    reads = [(Within, body), (Around, b'{"within": %b}' % body)] * 2
    threads = [threading.Thread(target=read, args=each) for each in reads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("all read")
"""


@pytest.mark.parametrize("read", ["decoder_of(kind).decode(data)", "converted(msgspec.json.decode(data), kind)"])
def test_threads_may_read_the_same_types_for_the_first_time_together(read: str) -> None:
    reads = _READS.replace("READ", read)
    done = subprocess.run([sys.executable, "-c", reads], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "all read\n", "")


def test_numbers_in_quotes() -> None:
    assert decoder_of(int, strict=False).decode(b'"7"') == 7
    with pytest.raises(msgspec.ValidationError):
        decoder_of(int).decode(b'"7"')
