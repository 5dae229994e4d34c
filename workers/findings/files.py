"""The files that a run's hours were computed from, page by page."""

from __future__ import annotations

from dataclasses import dataclass

from messaging.settings import Settings
from spark_jobs.inputs import InputFile, read_inputs
from workers.models import UsageRun

FILES_A_PAGE = 50


@dataclass(frozen=True)
class FilesPage:
    """`number` of `pages`, from 1; `pages` 0: the list of a run is kept as long as its files."""

    files: list[InputFile]
    number: int
    pages: int


def files_page(settings: Settings, run: UsageRun, number: str) -> FilesPage:
    """The page of this number, or one near it. Blocks on the disk, in proportion to the number."""
    pages = -(-run.files // FILES_A_PAGE)
    wanted = min(max(1, int(number) if number.isdecimal() and len(number) < 10 else 1), max(1, pages))
    folder = settings.data_path.absolute() / "usage" / "hours"
    files = list(read_inputs(folder, run.run_id, (wanted - 1) * FILES_A_PAGE, FILES_A_PAGE)) if pages else []
    return FilesPage(files, wanted, pages if files else 0)
