"""How fast a backup reads."""

from __future__ import annotations

from messaging.storage.bookkeeper.backup.pace import Pace


async def test_what_is_read_takes_its_time_behind_the_burst() -> None:
    now_s, waited = [100.0], list[float]()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        now_s[0] += seconds + 1e-6

    pace = Pace(10.0, 40.0, lambda: now_s[0], sleep)
    await pace.read(30)
    assert not waited
    for _ in range(10):
        await pace.read(40)
    assert 38 < sum(waited) < 40  # 430 bytes, 40 of them at once
    now_s[0] += 100
    await pace.read(39)
    assert sum(waited) < 40, "what was not read meanwhile is not more than a burst"
