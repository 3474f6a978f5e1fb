"""`tilec tune --confirm`: keeps a record whose kernel's files were changed and whose code was not, without a GPU."""

from __future__ import annotations

from typing import Any

from tilec.cli.app import App
from tilec.cli.build import make_request
from tilec.cli.style import style
from tilec.cli.tune_flow import Wish, folder_of, open_kernel, record_path
from tilec.cli.tune_show import Display
from tilec.tune.candidates import Facts, Foundry
from tilec.tune.record import code_of, confirmed, read_old, write_record
from tilec.tune.scratch import scratch
from tilec.tune.space import Point
from tilec_runtime.errors import UsageError


def confirm_kernel(app: App, wish: Wish, name: str) -> dict[str, Any]:
    """Compile what won, and hold it against the code that was measured; the record then knows the kernel as it is."""
    project, kernel = open_kernel(app, name)
    path = record_path(app, wish, kernel, project.manifest)
    shown = app.show(path)
    old = read_old(path, shown)
    if old is None or old.kernel != name:
        what = f"there is no record {shown}" if old is None else f"{shown} is the record of kernel {old.kernel!r}"
        raise UsageError(f"{what}: there is nothing to confirm", fix=f"`tilec tune {name}` writes one")
    codes: dict[tuple[str, Point], str] = {}
    facts: Facts | None = None
    with scratch(folder_of(project, name)) as own:
        for target in dict.fromkeys(str(device.target) for device in old.devices):
            points = [entry.point for device in old.devices if str(device.target) == target for entry in device.entries]
            with Foundry(
                make_request(app, workers=wish.jobs), name, target, own / target, Display(app, wish.clock), project=project
            ) as foundry:
                facts = foundry.facts
                known = [point for point in dict.fromkeys(points) if any(variant.axes == point for variant in facts.info.variants)]
                made = foundry.make(known)
                codes.update({(target, point): code_of(made[point].variants) if point in made else "" for point in points})
    app.wipe()
    if facts is None:
        raise UsageError(f"{shown} has no entries: there is nothing to confirm", fix=f"`tilec tune {name}` measures some")
    changed = write_record(path, confirmed(old, facts, codes, shown))
    entries = sum(len(device.entries) for device in old.devices)
    count = "1 entry" if entries == 1 else f"{entries} entries"
    word = "confirmed" if changed else "unchanged"
    app.say(f"{style(word, fg='green', bold=True)} {shown}: the code of {count} is what was measured")
    return {"kernel": name, "ok": True, "record": str(path), "changed": changed, "entries": entries}
