"""``engines``: list the engines that can run models here."""

from __future__ import annotations

from hf_sgpe.cli.application import Json, command
from hf_sgpe.terminal.printing import print_json, print_table


@command(epilog="Example: hf-sgpe engines --json")
def engines(as_json: Json = False) -> None:
    """List the engines that run models, with versions and devices. For missing engines, show how to install them."""
    from hf_sgpe.generation import available_engines

    infos = available_engines()
    if as_json:
        print_json([info._asdict() for info in infos])
        return
    rows = []
    for info in infos:
        why_not = f"{info.why_not}: {info.pip}" if info.why_not else ""
        rows.append((info.name, info.version or "–", ", ".join(info.devices) or "–", why_not))
    print_table(("engine", "installed", "devices", "why not"), rows)
