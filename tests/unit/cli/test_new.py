from __future__ import annotations

from pathlib import Path

import pytest

import tilec
from tilec.cli import new

FILES = {
    "tile": ["kernels.py"],
    "cuda": ["kernels.cu"],
    "triton": ["kernels.py"],
    "simt": ["kernels.py"],
    "cutile": ["kernels.py"],
    "mixed": ["kernels.cu", "kernels.py"],
}
COMMON = [
    ".github/actions/tilec/action.yml",
    ".github/workflows/kernels.yml",
    ".gitignore",
    "README.md",
    "pyproject.toml",
    "reference.py",
    "tilec.schema.json",
    "tilec.toml",
]


@pytest.mark.parametrize("kind", FILES)
def test_a_project_is_made(cli, tmp_path: Path, kind: str) -> None:
    done = cli("new", "acme-kernels", "--kind", kind)
    assert (done.code, done.err) == (0, "")
    root = tmp_path / "acme-kernels"
    made = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    assert made == sorted([*COMMON, *FILES[kind]])
    assert (
        done.out.splitlines()[-1]
        == f"created acme-kernels; next: cd acme-kernels && tilec {'run' if kind in ('tile', 'cutile', 'mixed') else 'build'}"
    )
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["acme-kernels"]
    for path in root.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert text.endswith("\n")
            assert not text.endswith("\n\n")
            assert "{{" not in text.replace("${{", "")
            assert "{%" not in text
            assert "\n\n\n\n" not in text


@pytest.mark.parametrize("kind", FILES)
def test_an_isolated_build_gets_the_compiler_of_its_language(
    cli, tmp_path: Path, kind: str
) -> None:
    cli("new", "acme-kernels", "--kind", kind)
    extras = f"build,{kind}" if kind in ("triton", "simt") else "build"
    for file in ("pyproject.toml", "README.md"):
        assert f'"tilec[{extras}]' in (tmp_path / "acme-kernels" / file).read_text()
    workflow = tmp_path / "acme-kernels" / ".github" / "workflows" / "kernels.yml"
    assert f"          extras: {extras}\n" in workflow.read_text()


def test_the_workflow_uses_the_action_beside_it(cli, tmp_path: Path) -> None:
    cli("new", "acme")
    github = tmp_path / "acme" / ".github"
    text = (github / "workflows" / "kernels.yml").read_text()
    assert "      - uses: ./.github/actions/tilec\n" in text
    assert f'          version: "{tilec.__version__}"\n' in text
    action = (github / "actions" / "tilec" / "action.yml").read_text()
    assert "value: ${{ steps.build.outputs.digest }}\n" in action


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../up", "'../up' is not a package name"),
        ("a b", "'a b' is not a package name"),
        ("-x-", ""),
        ("naïve", "'naïve' is not a package name"),
        ("", "'' is not a package name"),
        ("3d", "'3d' gives a module that a manifest refuses: '3d' is no identifier of Python"),
        ("class", "'class' is a keyword of Python"),
        ("json", "imported as 'json' it would hide the module of that name"),
        ("torch", "imported as 'torch' it would hide the module of that name"),
        ("Tilec", "imported as 'tilec' it would hide the module of that name"),
    ],
)
def test_names_that_will_not_do(cli, tmp_path: Path, name: str, message: str) -> None:
    done = cli("new", name)
    assert done.code == 2
    assert message in done.err
    assert "  fix: " in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["file", "full", "link"])
def test_nothing_is_overwritten(cli, tmp_path: Path, what: str) -> None:
    target = tmp_path / "acme"
    if what == "file":
        target.write_text("mine")
    elif what == "full":
        target.mkdir()
        (target / "mine").write_text("mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    done = cli("new", "acme")
    assert (done.code, done.err) == (
        2,
        f"error: {target} exists already\n  fix: choose another name, or move what is there\n",
    )
    assert len(list(tmp_path.iterdir())) == 1


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(
        Path,
        "write_bytes",
        lambda self, data: (_ for _ in ()).throw(OSError(28, "No space left on device")),
    )
    with pytest.raises(OSError, match="No space left on device"):
        new.write(tmp_path / "acme", {"a": b"a"})
    assert list(tmp_path.iterdir()) == []
