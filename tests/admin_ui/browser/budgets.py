"""What a page takes before it is seen: its bytes, those of scripts and styles, what its first paint waits for, and for how long."""

from __future__ import annotations

from statistics import median

from playwright.sync_api import Page

# Before compression, and whether or not the browser had them already. The longest page of the tests has 57 KB.
PAGE_BYTES_MAX, PARTS_BYTES_MAX = 100_000, 220_000
# Requests that hold up the first paint: the styles, and no script.
BLOCKING_MAX = 8
# From the first byte of the answer. Of half of all pages: one alone may be held up by what else the machine does.
PAINT_MS_MAX = 500
LOADED = """() => {
  const [page] = performance.getEntriesByType('navigation'), parts = performance.getEntriesByType('resource');
  const [paint] = performance.getEntriesByName('first-contentful-paint');
  return {
    bytes: page.decodedBodySize,
    parts: parts.filter((one) => ['link', 'script'].includes(one.initiatorType)).map((one) => [one.name, one.decodedBodySize]),
    blocking: parts.filter((one) => one.renderBlockingStatus === 'blocking').map((one) => one.name),
    paint_ms: paint ? paint.startTime - page.responseStart : 0,
  };
}"""


class Budgets:
    """`look` at each page once it is loaded; `passed` says which took more than they may."""

    def __init__(self) -> None:
        self.passed: dict[str, str] = {}
        self._parts: dict[str, int] = {}  # address -> bytes: the browser says 0 of what it has in memory
        self._paints_ms = list[float]()

    def look(self, page: Page, address: str) -> None:
        page.wait_for_load_state("load")
        loaded = page.evaluate(LOADED)
        self._parts |= {part: size for part, size in loaded["parts"] if size}
        parts_bytes = sum(self._parts.get(part, 0) for part, _ in loaded["parts"])
        if loaded["bytes"] > PAGE_BYTES_MAX:
            self.passed[address] = f"the page has {loaded['bytes']:,} bytes of {PAGE_BYTES_MAX:,}"
        if parts_bytes > PARTS_BYTES_MAX:
            self.passed[address] = f"its scripts and styles have {parts_bytes:,} bytes of {PARTS_BYTES_MAX:,}"
        if len(loaded["blocking"]) > BLOCKING_MAX or any(one.endswith(".js") for one in loaded["blocking"]):
            self.passed[address] = f"its first paint waits for {loaded['blocking']}"
        if loaded["paint_ms"]:
            self._paints_ms.append(loaded["paint_ms"])

    @property
    def paint_ms(self) -> float:
        return median(self._paints_ms)
