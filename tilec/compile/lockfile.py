"""tilec.lock: the exact tools of a project, and the digests of its images.

Users commit it. Version ranges are in the manifest.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tilec.model.atomic import write_if_changed
from tilec.model.inside import contained
from tilec_runtime.errors import OutputError, ToolchainError, UsageError
from tilec_runtime.model.kernel import ToolInfo

NAME = "tilec.lock"
_ABOUT = (
    "The tools of the last build, and the key, SHA-256 and index row of its images; written by "
    "`tilec build`. Commit it: `tilec build --locked` refuses other tools, and other bytes of an "
    "image of the same sources."
)
_SHOWN = 5

Pins = Mapping[str, Mapping[str, "Pin"]]
"""The pinned images of each profile, by the id of their job."""


class Pin(NamedTuple):
    """The image of a job in the last build.

    Attributes:
        key: first digits of the job's cache key, to which the pin applies.
        image: SHA-256 of the image's bytes.
        row: SHA-256 of its index row, which also covers arguments and resources. Entries of a
            shared cache must have it.
    """

    key: str
    image: str
    row: str

    @classmethod
    def of(cls, key: str, image: str, row: str) -> Pin:
        """Create a pin from a whole key."""
        return cls(key[:16], image, row)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """The content of the file, empty if it does not exist.

    Attributes:
        path: path of the file.
        text: text of the file.
        tools: (version, digest) by tool.
        pins: pinned images by profile and job.
        damage: why the text cannot be read; empty if it can.
    """

    path: Path
    text: str
    tools: Mapping[str, tuple[str, str]]
    pins: Pins
    damage: str

    def require_tools(self, tools: Mapping[str, Sequence[ToolInfo]]) -> None:
        """Refuse tools, given by language, that differ from those in the file.

        Raises:
            ToolchainError: the file is missing or damaged, or has other tools.
        """
        if not self.text:
            fix = "run `tilec build` without --locked, and commit the tilec.lock that it writes"
            raise ToolchainError("there is no tilec.lock to compare the tools with", fix=fix)
        if self.damage:
            raise ToolchainError(
                f"tilec.lock cannot be read: {self.damage}",
                cause="the file was edited, or two branches were merged",
                fix="run `tilec build` without --locked, and commit the tilec.lock that it writes",
            )
        changes = _changes(self.tools, _rows(tools))
        if changes:
            raise ToolchainError(
                f"the tools are not those of tilec.lock: {'; '.join(changes)}",
                cause="other versions are installed than when tilec.lock was written",
                fix="install those, or run `tilec build` without --locked and commit the new tilec.lock",
            )

    def pinned(self, profile: str, keys: Mapping[str, str]) -> dict[str, Pin]:
        """Return the valid pins of jobs, given by id with their cache keys."""
        pins = self.pins.get(profile, {})
        return {
            job: pins[job]
            for job, key in keys.items()
            if job in pins and key.startswith(pins[job].key)
        }

    def require_images(self, profile: str, built: Mapping[str, Pin]) -> int:
        """Refuse images that differ from pinned ones; return the number of unpinned jobs.

        Raises:
            ToolchainError: images differ.
        """
        pins = self.pinned(profile, {job: pin.key for job, pin in built.items()})
        others = [job for job, pin in pins.items() if pin.image != built[job].image]
        if not others:
            return len(built) - len(pins)
        shown = [
            f"\n  {job}: pinned {pins[job].image}, built {built[job].image}"
            for job in others[:_SHOWN]
        ]
        rest = f"\n  and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        images = (
            "1 image is not the one" if len(others) == 1 else f"{len(others)} images are not those"
        )
        raise ToolchainError(
            f"{images} that tilec.lock pins, from the same sources and tools:{''.join(shown)}{rest}",
            cause="a tool whose output varies from run to run, or code that a kernel's module reads from the machine",
            fix="`tilec build --locked --force` compiles again; to pin what is built now, run `tilec build` and commit the new tilec.lock",
        )

    def renew(
        self,
        tools: Mapping[str, Sequence[ToolInfo]],
        *,
        profile: str,
        built: Mapping[str, Pin] | None,
        keep: Callable[[str, str], bool],
        note: Callable[[str], None],
    ) -> None:
        """Update the file to the tools in use and the images of a build.

        Args:
            tools: the tools in use, by language.
            profile: profile of the build.
            built: its images by job id; None if nothing was built.
            keep: returns whether the pin of a job that was not built, given by profile and job,
                still belongs to the project.
            note: gets a text about each change.
        """
        pins: Pins = self.pins
        varied: list[str] = []
        if built is not None:
            before = self.pins.get(profile, {})
            varied = [
                job
                for job, pin in built.items()
                if job in before and before[job].key == pin.key and before[job].image != pin.image
            ]
            still = {
                name: {job: pin for job, pin in rows.items() if keep(name, job)}
                for name, rows in self.pins.items()
            }
            pins = {**still, profile: {**still.get(profile, {}), **built}}
        rows = _rows(tools)
        if self.text and (rows, pins) == (self.tools, self.pins):
            return
        try:
            write_if_changed(self.path, render(rows, pins).encode())
        except OutputError as error:
            note(f"tilec.lock was not written: {error.what}")
            return
        changes = _changes(self.tools, rows) if self.text and not self.damage else []
        if changes:
            note(f"tilec.lock now holds other tools: {'; '.join(changes)}")
        if varied:
            more = f" and {len(varied) - _SHOWN} more" if len(varied) > _SHOWN else ""
            note(
                f"tilec.lock now pins other bytes, made of the same sources by the same tools, for {', '.join(varied[:_SHOWN])}{more}"
            )


def read_lock(root: Path) -> Lock:
    """Return the tilec.lock of a project's directory.

    Raises:
        LinkError: it is a link that leaves the project.
        UsageError: it is not a file.
    """
    path = contained(root, NAME)
    if path.exists() and not path.is_file() and not path.is_dir():  # reading a pipe would block
        raise UsageError(
            f"{path} is not a file, where tilec keeps the tools and images of a build",
            fix="remove it, or rename it",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    try:
        tools, pins = _parsed(text)
        return Lock(path=path, text=text, tools=tools, pins=pins, damage="")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        damage = str(error) if isinstance(error, ValueError) else "a value is missing"
        return Lock(path=path, text=text, tools={}, pins={}, damage=damage)


def _parsed(text: str) -> tuple[dict[str, tuple[str, str]], Pins]:
    """Return tools and pins of a file's text."""
    if not text:
        return {}, {}
    table = json.loads(text)
    tools = {}
    for name, row in table["tools"].items():
        version, _, digest = row.rpartition(" ")
        tools[name] = version, digest
    pins = {
        profile: {job: Pin(*row.split(" ")) for job, row in rows.items()}
        for profile, rows in table["images"].items()
    }
    return tools, pins


def render(tools: Mapping[str, tuple[str, str]], pins: Pins) -> str:
    """Return the text of the file, with a line for each tool and image."""
    table = {
        "about": _ABOUT,
        "tools": {name: " ".join(row) for name, row in tools.items()},
        "images": {
            profile: {job: " ".join(pin) for job, pin in rows.items()}
            for profile, rows in pins.items()
            if rows
        },
    }
    return json.dumps(table, indent=1, sort_keys=True) + "\n"


def _rows(tools: Mapping[str, Sequence[ToolInfo]]) -> dict[str, tuple[str, str]]:
    return {tool.name: (tool.version, tool.digest) for row in tools.values() for tool in row}


def _changes(old: Mapping[str, tuple[str, str]], new: Mapping[str, tuple[str, str]]) -> list[str]:
    changes = []
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        if was is None or now is None:
            changes.append(f"{name} {'is new' if was is None else 'is gone'}")
        elif was[0] != now[0]:
            changes.append(f"{name} {was[0]} is now {now[0]}")
        else:
            changes.append(f"{name} {now[0]} is another file")
    return changes
