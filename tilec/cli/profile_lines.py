"""Where the samples of a profile fall: instructions brought together with the source lines that they come from."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilec_runtime.errors import ToolchainError

if TYPE_CHECKING:
    from tilec.cli.one_case import Watched
    from tilec.frontends.base import ToolSearch
    from tilec.inspection.lines import Listing
    from tilec.runner.ncu import Sampled

_OPCODE = re.compile(r"^(?:[0-9a-f]{4,}\s+)?(?:@!?U?P[T0-9]+\s+)?(?P<opcode>[A-Z][A-Z0-9_]*)")
# The source page shortens some of the names that metrics have.
_LONG = {
    "long_sb": "long_scoreboard",
    "short_sb": "short_scoreboard",
    "math": "math_pipe_throttle",
    "lg": "lg_throttle",
    "mio": "mio_throttle",
    "tex": "tex_throttle",
    "no_inst": "no_instructions",
    "imc": "imc_miss",
    "dispatch": "dispatch_stall",
    "branch_resolve": "branch_resolving",
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Hot:
    """A source line (or, where there is none, an instruction) at which warps were seen.

    Attributes:
        share: percent of all samples.
        place: `file:line`, or the instruction's number.
        stall: what they waited for most, by ncu's name; empty for nothing in particular.
        text: the line.
    """

    share: float
    place: str
    stall: str
    text: str


def hot_lines(watched: Watched, taken: dict[str, Any], samples: Sequence[Sampled], search: ToolSearch) -> tuple[tuple[Hot, ...], str]:
    """The lines at which most samples fall, and what is to be said of them.

    Args:
        watched: the case.
        taken: what its launch told.
        samples: instructions in the order of the code.
        search: where the disassembler is looked for, which knows the lines.
    """
    whole = sum(one.samples for one in samples)
    if not whole:
        return (), "no samples of where warps wait: the launch is too short for them, or this ncu has no such page"
    places, note = _places(watched, taken, samples, search)
    counts: dict[tuple[str, int], float] = {}
    stalls: dict[tuple[str, int], dict[str, float]] = {}
    for place, one in zip(places, samples, strict=True):
        counts[place] = counts.get(place, 0.0) + one.samples
        waits = stalls.setdefault(place, {})
        for reason, seen in one.stalls.items():
            if reason not in ("selected", "not_selected"):
                waits[reason] = waits.get(reason, 0.0) + seen
    texts = _Texts(watched, samples)
    found = []
    for place, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        if count:
            waits = stalls[place]
            name = f"{place[0]}:{place[1]}" if place[0] else f"instruction {place[1]}"
            stall = _LONG.get(top, top) if (top := max(waits, key=lambda one: waits[one], default="")) else ""
            found.append(Hot(share=100 * count / whole, place=name, stall=stall, text=texts(place)))
    return tuple(found), note


def _places(watched: Watched, taken: dict[str, Any], samples: Sequence[Sampled], search: ToolSearch) -> tuple[list[tuple[str, int]], str]:
    """The place of each instruction; its number, where lines are not known, with the reason."""
    numbers = [("", number) for number in range(len(samples))]
    found = watched.image(taken)
    if found is None or found[1].target.kind.value != "cubin":
        return numbers, "no source lines: the launch took code that the driver compiled"
    from tilec.inspection.dump import in_short, machine_code
    from tilec.inspection.lines import sass_listing

    try:
        _, text = machine_code(watched.bundle.image(found[1].digest), found[1].symbol, search, places=True)
    except ToolchainError as error:
        return numbers, f"no source lines: {in_short(error)}"
    code = _code(sass_listing(text))
    if [_opcode(line) for line, _ in code] != [_opcode(one.text) for one in samples]:
        return numbers, "no source lines: ncu shows other instructions than the bundle has"
    if not any(places for _, places in code):
        return numbers, "no source lines: build with lineinfo = true in the profile"
    return [places[0] if places else ("", number) for number, (_, places) in enumerate(code)], ""


def _code(listing: Listing) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """The instructions of a listing, which begin with their address."""
    rows = zip(listing.lines, listing.places, strict=True)
    return [(line, places) for line, places in rows if re.match(r"[0-9a-f]{4,}  \S", line)]


def _opcode(text: str) -> str:
    match = _OPCODE.match(text.strip())
    return match["opcode"] if match else ""


class _Texts:
    """Texts of source lines that have not changed since the build; of instructions where there are none."""

    def __init__(self, watched: Watched, samples: Sequence[Sampled]) -> None:
        self._root = Path(watched.manifest.root)
        self._digests = dict(watched.bundle.info.sources)
        self._samples = samples
        self._files: dict[str, list[str]] = {}

    def __call__(self, place: tuple[str, int]) -> str:
        file, number = place
        if not file:
            return self._samples[number].text
        if file not in self._files:
            from tilec.inspection.tileir import source_lines

            digest = self._digests.get(file, "")
            self._files[file] = source_lines(self._root / file, digest) if digest else []
        lines = self._files[file]
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""
