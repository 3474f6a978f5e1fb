"""Renew the documentation's pictures: python scripts/docs_pictures.py [NAME...]

Drawings need nothing. The terminal needs the compilers of tilec[build], the report a Chromium too.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from drawing import Drawing  # noqa: E402

WIDTH = 720  # of the text column of the site


def partition() -> Drawing:
    """Tiles of a tensor, and the blocks that write them."""
    drawing = Drawing(WIDTH, 360, "A partition: each block of the grid writes one tile of a tensor")
    scale, (x, y) = 66 / 64, (36.0, 72.0)
    rows, columns = (64, 64, 22), (64, 64, 64, 38)  # of a tensor of shape (150, 230)
    drawing.text(x, 26, "y of shape (150, 230)", style="mono head")
    drawing.text(x, 46, "y.partition(64, 64)", style="mono")
    drawing.box(x, y, 4 * 66, 3 * 66, dashed=True)
    for i, height in enumerate(rows):
        for j, width in enumerate(columns):
            drawing.box(
                x + 66 * j,
                y + 66 * i,
                width * scale,
                height * scale,
                f"({i}, {j})",
                colour="green" if (i, j) == (0, 2) else "plain",
                size=13 if i < 2 and j < 3 else 11,
            )
    left, top = 430.0, 72.0
    drawing.text(left, 26, "grid (3, 4)", style="mono head")
    drawing.text(left, 46, "12 blocks, in any order")
    for i in range(3):
        for j in range(4):
            here = (i, j) == (0, 2)
            drawing.box(
                left + 66 * j,
                top + 66 * i,
                54,
                54,
                f"({i}, {j})",
                colour="green" if here else "plain",
                size=13,
            )
    drawing.arrow((left + 159, top), (left + 159, 58), (x + 165, 58), (x + 165, y))
    drawing.text(x, 302, "Block (0, 2) writes tile (0, 2): rows 0 to 63, columns 128 to 191.")
    drawing.text(x, 324, "No two blocks write the same element.")
    drawing.text(x, 346, "Dashed: outside of y. Loads give padding there, and stores skip it.")
    return drawing


def matrix() -> Drawing:
    """Variants and targets become images."""
    drawing = Drawing(WIDTH, 340, "A matrix of variants, compiled for every target into one bundle")
    drawing.box(20, 46, 190, 74, "gemm", "gemm.py", colour="blue", style="mono")
    drawing.box(20, 148, 190, 74, 'T = ["f32", "f16"]', "BM = [64, 128]", style="mono")
    drawing.box(20, 250, 190, 58, "sm_80, sm_90,", "sm_100, tileir", style="mono")
    for y, label in ((38, "kernel"), (140, "matrix"), (242, "targets")):
        drawing.text(20, y, label, style="soft", size=13)
    variants = ("f32-BM64", "f32-BM128", "f16-BM64", "f16-BM128")
    targets = ("sm_80", "sm_90", "sm_100", "tileir")
    drawing.text(244, 38, "4 variants", style="soft", size=13)
    drawing.text(480, 38, "4 targets", anchor="middle", style="soft", size=13)
    for column, target in enumerate(targets):
        drawing.text(375 + 64 * column, 62, target, anchor="middle", style="mono", size=13)
    for row, variant in enumerate(variants):
        y = 76 + 46 * row
        drawing.text(244, y + 22, variant, style="mono", size=13)
        for column, target in enumerate(targets):
            kind = "Tile IR" if target == "tileir" else "cubin"
            colour = "amber" if target == "tileir" else "green"
            drawing.box(347 + 64 * column, y, 56, 34, kind, colour=colour, size=11)
    drawing.arrow((210, 185), (236, 185))
    drawing.arrow((403, 260), (403, 284))
    drawing.arrow((547, 260), (547, 284))
    drawing.box(320, 284, 160, 36, "bundle: 16 images", colour="blue")
    drawing.box(492, 284, 160, 36, "typed launchers", colour="blue")
    return drawing


def choice() -> Drawing:
    """What a launch chooses: the variant, then the image."""
    drawing = Drawing(WIDTH, 520, "Arguments choose the variant, then the device chooses the image")
    drawing.text(20, 30, "1  The arguments choose the variant", style="head")
    sources = ("dtypes", "caller", "partition", "table", "rules", "default")
    for number, source in enumerate(sources):
        x = 20 + 116 * number
        drawing.box(x, 46, 100, 34, source, colour="blue", size=13)
        if number:
            drawing.arrow((x - 16, 63), (x, 63))
    drawing.text(20, 102, "An axis takes its value from the first source that gives one.", size=13)
    drawing.arrow((360, 112), (360, 134))
    drawing.text(20, 158, "2  The device chooses the image: the first that fits", style="head")
    rows = (
        ("cubin sm_90a", "exactly 9.0"),
        ("cubin sm_100f", "10.0 and later 10.x"),
        ("cubin sm_86", "8.6 and later 8.x"),
        ("PTX compute_80", "8.0 and later"),
        ("Tile IR", "8.0 and later"),
        ("LTO-IR lto_80", "8.0 and later"),
        ("PTX newer than the driver", "8.0 and later"),
    )
    for number, (image, devices) in enumerate(rows):
        y = 174 + 40 * number
        colour = "green" if number < 3 else "amber"
        drawing.box(20, y, 232, 32, image, colour=colour, size=13)
        drawing.text(266, y + 21, devices, size=13)
        if number:
            drawing.arrow((136, y - 8), (136, y))
    drawing.box(470, 174, 230, 112, "machine code:", "loaded as it is", colour="green")
    drawing.box(
        470, 294, 230, 152, "compiled at load,", "if jit-fallback allows it", colour="amber"
    )
    drawing.arrow((136, 446), (136, 466))
    drawing.box(20, 466, 232, 34, "NoImageError", colour="red", style="mono")
    drawing.text(266, 488, "names every image, and why it does not fit", size=13)
    return drawing


def launch() -> Drawing:
    """From a call to the driver."""
    drawing = Drawing(WIDTH, 400, "A launch: a cached plan is repeated in C, a new one is prepared")
    drawing.frame(16, 84, 330, 300, "launch core (C)")
    drawing.frame(374, 84, 330, 300, "Python, the first time")
    drawing.box(180, 20, 360, 40, "kernels.scale(y, x, factor=3.0)", colour="blue", style="mono")
    drawing.arrow((260, 60), (260, 122), (240, 122))
    drawing.box(40, 116, 200, 44, "read the arguments")
    drawing.arrow((140, 160), (140, 186))
    drawing.box(40, 186, 282, 52, "a plan of this key,", "and its guards hold?", colour="amber")
    drawing.arrow((322, 212), (398, 212), label="no")
    drawing.arrow((140, 238), (140, 268), label="yes")
    drawing.box(40, 268, 282, 40, "fill the argument buffer")
    drawing.arrow((140, 308), (140, 332))
    drawing.box(40, 332, 282, 40, "cuLaunchKernelEx", colour="green", style="mono")
    drawing.box(398, 186, 282, 52, "check every argument,", "choose variant and image")
    drawing.arrow((539, 186), (539, 160), label="refused")
    drawing.box(398, 116, 282, 44, "LaunchError", colour="red", style="mono")
    drawing.arrow((539, 238), (539, 268))
    drawing.box(398, 268, 282, 40, "store the plan")
    drawing.arrow((398, 288), (322, 288))
    drawing.text(398, 352, "The cpu device runs Tile IR instead.", style="soft", size=13)
    return drawing


def halves() -> Drawing:
    """The build half, the runtime, and the bundle between them."""
    drawing = Drawing(WIDTH, 330, "tilec builds a bundle; tilec-runtime loads and launches it")
    drawing.frame(16, 14, 436, 300, "tilec: compilers, no GPU")
    drawing.frame(522, 14, 182, 300, "tilec-runtime")
    drawing.box(36, 54, 110, 40, "tilec.toml", style="mono")
    drawing.box(36, 124, 110, 40, "sources")
    drawing.box(176, 124, 110, 40, "frontends", colour="blue")
    drawing.box(176, 54, 110, 40, "plan", colour="blue")
    drawing.box(318, 54, 114, 40, "compile jobs", colour="blue", size=13)
    drawing.box(318, 124, 114, 40, "workers", colour="blue")
    drawing.box(176, 194, 110, 40, "cache")
    drawing.box(318, 194, 114, 40, "package", colour="blue")
    drawing.box(230, 258, 202, 42, "bundle + launchers", colour="green")
    drawing.arrow((146, 74), (176, 74))
    drawing.arrow((146, 144), (176, 144))
    drawing.arrow((231, 124), (231, 94))
    drawing.arrow((286, 74), (318, 74))
    drawing.arrow((375, 94), (375, 124))
    drawing.arrow((375, 164), (375, 194))
    drawing.arrow((318, 154), (260, 194))
    drawing.arrow((375, 234), (375, 258))
    drawing.arrow((432, 279), (492, 279), (492, 74), (542, 74))
    drawing.box(542, 54, 142, 40, "load", colour="blue")
    drawing.box(542, 124, 142, 40, "launch", colour="blue")
    drawing.box(542, 194, 104, 40, "ops, graphs", colour="blue")
    drawing.box(542, 258, 142, 42, "GPU or CPU", colour="green")
    drawing.arrow((613, 94), (613, 124))
    drawing.arrow((594, 194), (594, 164))
    drawing.arrow((666, 164), (666, 258))
    return drawing


def play(project: Path, *commands: str) -> str:
    """Return what a terminal shows of commands in a project, with its colours."""
    env = {**os.environ, "TILEC_CACHE_DIR": str(project.parent / "cache"), "COLUMNS": "92"}
    shown = ""
    for command in commands:
        words = command.replace("tilec ", "tilec --color always ", 1)
        done = subprocess.run(
            ["bash", "-c", words], cwd=project, env=env, capture_output=True, text=True, check=False
        )
        failure = done.stderr if done.returncode else ""
        shown += f"\x1b[1m$ {command}\x1b[0m\n{done.stdout}{failure}\n"
    return shown.rstrip() + "\n"


def terminal(text: str, title: str, name: str) -> str:
    """Return a picture of a terminal, without fonts from elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=92, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text))
    svg = console.export_svg(title=title, unique_id=name)
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def new_project(folder: Path, *options: str) -> Path:
    """Create the project of `tilec new demo`."""
    subprocess.run(["tilec", "new", "demo", *options], cwd=folder, check=True, capture_output=True)
    return folder / "demo"


def terminal_session() -> str:
    """A first build and run, without a GPU."""
    with tempfile.TemporaryDirectory() as folder:
        project = new_project(Path(folder))
        shown = play(
            project, "tilec check", "tilec build --targets tileir", "tilec run --device cpu"
        )
    return terminal(shown, "tilec", "session")


def terminal_error() -> str:
    """A mistake in a kernel."""
    with tempfile.TemporaryDirectory() as folder:
        project = new_project(Path(folder))
        source = project / "kernels.py"
        text = source.read_text()
        assert "load_tile_like" in text
        source.write_text(text.replace("load_tile_like", "load_tile_lik"))
        shown = play(project, "tilec build --targets tileir")
    return terminal(shown, "tilec", "error")


def report() -> bytes:
    """The page that `tilec inspect --html` writes."""
    from tests.browser import Browser, find_browser

    program = find_browser()
    if program is None:
        raise SystemExit("error: no Chromium on PATH; on Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        project = new_project(Path(folder), "--kind", "mixed")
        for command in (
            ["tilec", "build", "--targets", "sm_80,sm_90,sm_100,tileir"],
            ["tilec", "inspect", "dist/demo", "--html", "report.html"],
        ):
            subprocess.run(command, cwd=project, check=True, capture_output=True)
        browser = Browser(program, Path(folder) / "profile")
        browser.start()
        try:
            browser.open((project / "report.html").as_uri())
            return browser.screenshot(1100, 720)
        finally:
            browser.close()


PICTURES_BY_NAME: dict[str, Callable[[], Drawing | str | bytes]] = {
    "partition.svg": partition,
    "matrix.svg": matrix,
    "choice.svg": choice,
    "launch.svg": launch,
    "halves.svg": halves,
    "terminal.svg": terminal_session,
    "terminal-error.svg": terminal_error,
    "report.png": report,
}


def main(names: list[str]) -> None:
    """Write the pictures with these names; all without any."""
    PICTURES.mkdir(exist_ok=True)
    for name in names or PICTURES_BY_NAME:
        picture = PICTURES_BY_NAME[name]()
        path = PICTURES / name
        if isinstance(picture, Drawing):
            picture.save(path)
        elif isinstance(picture, str):
            path.write_text(picture, encoding="utf-8")
        else:
            path.write_bytes(picture)
        print(f"wrote {path.relative_to(ROOT)}, {path.stat().st_size / 1024:.1f} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
