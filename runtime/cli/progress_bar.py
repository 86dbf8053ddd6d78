"""Progress at a terminal, on standard error; gone when what it was about has ended."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from runtime.clock import SystemClock

# What has ended by then flickers if it is shown.
_PATIENCE_MS = 500


@dataclass(slots=True, kw_only=True)
class ShownProgress:
    """One bar, or a count where nobody knows how much there is."""

    what: str
    total: int | None
    is_bytes: bool
    bars: Progress | None = None
    done: int = 0
    _clock: SystemClock = field(default_factory=SystemClock)
    _began_ms: int = 0

    def __post_init__(self) -> None:
        """Note when it began."""
        self._began_ms = self._clock.elapsed_ms()

    def advance(self, count: int = 1) -> None:
        """Count further parts as done."""
        self.done += count
        if self.bars is None and self._clock.elapsed_ms() - self._began_ms > _PATIENCE_MS:
            self.bars = self._bars()
            self.bars.start()
            self.bars.add_task(self.what, total=self.total)
        if self.bars is not None:
            (task,) = self.bars.task_ids
            self.bars.update(task, completed=self.done)

    def expect(self, total: int) -> None:
        """Say how many parts there are."""
        self.total = total
        if self.bars is not None:
            (task,) = self.bars.task_ids
            self.bars.update(task, total=total)

    def _bars(self) -> Progress:
        counted = DownloadColumn() if self.is_bytes else MofNCompleteColumn()
        name = TextColumn("{task.description}", markup=False)
        columns: tuple[ProgressColumn, ...]
        if self.total is None:
            count = TextColumn("{task.completed:,.0f}")
            columns = (SpinnerColumn(), name, counted if self.is_bytes else count)
            columns = (*columns, TimeElapsedColumn())
        else:
            columns = (name, BarColumn(bar_width=None), counted, TimeRemainingColumn())
        return Progress(
            *columns,
            console=Console(stderr=True),
            transient=True,
            # Else what is written for a program would go to the terminal.
            redirect_stdout=False,
            redirect_stderr=False,
        )


@contextmanager
def shown_progress(what: str, *, total: int | None, is_bytes: bool) -> Iterator[ShownProgress]:
    """Yield what shows how far something has come; it is taken away at the end."""
    shown = ShownProgress(what=what, total=total, is_bytes=is_bytes)
    try:
        yield shown
    finally:
        if shown.bars is not None:
            shown.bars.stop()


@contextmanager
def shown_stages(first: str) -> Iterator[Callable[[str], None]]:
    """Yield what is told which stage has begun; the time since the first is shown with it."""
    with Progress(
        SpinnerColumn(),
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis"),
        ),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bars:
        task = bars.add_task(first, total=None)
        yield lambda what: bars.update(task, description=what)
