"""TaskPlan: into how many tasks counting is divided, and where the tasks run."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import option


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """The options that divide counting into tasks: how many tasks there are, and where they run. If all options have their
    default values, counting is not divided.
    """

    on: str | None = option(
        "Divide the counting into tasks, and run the tasks on this machine (local), on Slurm (slurm) or on Ray (ray). "
        "To continue after an interruption, repeat the command. With spark, Spark reads and counts the text.",
        None,
        "--on",
        "--executor",
        choices=("local", "slurm", "ray", "spark"),
    )
    tasks: int | None = option("Number of tasks that count words, at most one per file (default with --on: 16).")
    adding_tasks: int = option("Number of tasks that add up the counts.", 4)
    work: Path | None = option("Folder for the results of finished tasks (default: the --out path plus .work).")
    partition: str | None = option("Slurm partition, required by --on slurm.")
    time: str = option("Time limit of a Slurm task.", "24:00:00")

    def check(self) -> None:
        """Check that the numbers of tasks are in range, and that Slurm can run the tasks if it is chosen."""
        for name, number in {"tasks": self.tasks, "adding-tasks": self.adding_tasks}.items():
            if number is not None and not 1 <= number <= 99_999:
                raise SGPEError(f"--{name} must be a number from 1 to 99999, not {number}")
        if self.on == "slurm" and not (self.partition and shutil.which("sbatch")):
            raise SGPEError(
                "--on slurm needs --partition NAME and the program sbatch: run the command on a machine that can "
                "submit Slurm jobs"
            )

    def check_alone(self, **others: Any) -> None:
        """Check that no option is given for which Spark has its own settings: those of this class except ``--on``, and the
        ``others`` of the command.
        """
        changed = [setting.name for setting in fields(self) if getattr(self, setting.name) != setting.default]
        own = {name: getattr(self, name) for name in changed}
        for name, value in {**own, **others}.items():
            if value and name != "on":
                raise SGPEError(
                    f"--{name.replace('_', '-')} cannot be used with --on spark: leave it out, and use Spark's own settings"
                )

    def work_for(self, out: Path) -> Path:
        """Return the absolute path of the folder for the results of finished tasks."""
        return (self.work or out.with_name(f"{out.name}.work")).resolve()
