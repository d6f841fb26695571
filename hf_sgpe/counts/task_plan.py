"""TaskPlan: the number of counting tasks, and the place where they run."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import option

EXECUTORS = ("local", "slurm", "ray", "spark")


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """The number of counting tasks, and the place where the tasks run. If a plan has only default values, there are no
    tasks.
    """

    on: str | None = option(
        "Divide the counting into tasks, and run the tasks on this machine (local), on Slurm (slurm) or on Ray (ray). "
        "To continue after an interruption, repeat the command. With spark, Spark reads and counts the text.",
        None,
        "--on",
        "--executor",
        choices=EXECUTORS,
    )
    tasks: int | None = option("Number of tasks that count words, at most one per file (default with --on: 16).")
    adding_tasks: int = option("Number of tasks that add up the counts.", 4)
    work: Path | None = option("Folder for the results of finished tasks (default: --out plus .work).")
    partition: str | None = option("Slurm partition, required by --on slurm.")
    time: str = option("Time limit of a Slurm task.", "24:00:00")

    @property
    def is_asked_for(self) -> bool:
        return self != TaskPlan()

    def check(self) -> None:
        """Check that the tasks can run.

        Raises:
            SGPEError: a number of tasks is out of range, or Slurm is not available.
        """
        for name, number in {"tasks": self.tasks, "adding-tasks": self.adding_tasks}.items():
            if number is not None and not 1 <= number <= 99_999:
                raise SGPEError(f"--{name} must be a number from 1 to 99999")
        if self.on == "slurm" and not (self.partition and shutil.which("sbatch")):
            raise SGPEError(
                "--on slurm needs --partition NAME and the program sbatch: run the command on a machine that can "
                "submit Slurm jobs"
            )

    def check_alone(self, **others: Any) -> None:
        """Check that no option conflicts with Spark's own settings.

        Args:
            **others: Other options, by name.

        Raises:
            SGPEError: an option conflicts with Spark. The message names the first such option.
        """
        changed = [setting.name for setting in fields(self) if getattr(self, setting.name) != setting.default]
        own = {name: getattr(self, name) for name in changed}
        for name, value in {**own, **others}.items():
            if value and name != "on":
                raise SGPEError(
                    f"--{name.replace('_', '-')} cannot be used with --on spark: leave it out, and use Spark's own settings"
                )

    def work_for(self, out: Path) -> Path:
        """Return the work folder for the result ``out``."""
        return (self.work or out.with_name(f"{out.name}.work")).resolve()
