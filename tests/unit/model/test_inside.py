"""Links of a project: those that stay in it are followed, those that leave it are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.model.inside import contained
from tilec_runtime.errors import LinkError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("project/a/b", "outside"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "outside" / "file").write_text("secret")
    return tmp_path / "project"


@pytest.mark.parametrize(
    ("link", "target", "name"),
    [
        ("", "", "a/b/new/file"),
        ("a/link", "b", "a/link/new"),
        ("link", "a/b", "link"),
        ("link", "nowhere", "link"),
        ("link", "link", "link/file"),
        ("a/link", "../../project/a", "a/link/b"),
        ("a/back", "../../outside/back", "a/back/b"),
    ],
)
def test_paths_that_stay(root: Path, link: str, target: str, name: str) -> None:
    (root.parent / "outside" / "back").symlink_to(root / "a")
    if link:
        (root / link).symlink_to(target)
    assert contained(root, name) == root / name
    (root.parent / "alias").symlink_to(root)
    assert contained(root.parent / "alias", name) == root.parent / "alias" / name


@pytest.mark.parametrize(
    ("link", "target", "name", "kind"),
    [
        ("a/link", "{0}/outside", "a/link", "directory"),
        ("a/link", "../../outside", "a/link/b/c", "directory"),
        ("a/link", "../../outside", "a/link/file", "directory"),
        ("a/link", "{0}/outside/file", "a/link", "file"),
        ("a/link", "{0}/nowhere", "a/link", "directory"),
        ("a/link", "../../project-2", "a/link", "directory"),
    ],
)
def test_links_that_leave(root: Path, link: str, target: str, name: str, kind: str) -> None:
    target = target.format(root.parent)
    (root / link).symlink_to(target)
    with pytest.raises(LinkError) as caught:
        contained(root, name)
    what = f"'{link}' is a link that leaves the project: it leads to {target}"
    assert (
        str(caught.value) == f"{what}\n  fix: copy the {kind} into the project, or remove the link"
    )


def test_a_path_that_leaves_without_a_link(root: Path) -> None:
    with pytest.raises(LinkError, match=r"'\.\./outside' leaves the project: it is .*/outside"):
        contained(root, "../outside")
