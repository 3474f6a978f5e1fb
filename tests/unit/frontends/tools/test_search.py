"""Finding tools: the order of places, whole sets, version ranges, digests that are not computed
twice, time limits.
"""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools import search
from tilec.frontends.tools.digests import file_sha256
from tilec.frontends.tools.packages import package
from tilec.frontends.tools.run import run_tool
from tilec.frontends.tools.search import check_range, find_tool, require
from tilec_runtime.bundle import store
from tilec_runtime.errors import ToolchainError, UsageError


def script(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def toolkit(home: Path) -> Path:
    """Create the files of a toolkit of release 13.4 that a search reads."""
    for name in ("nvcc", "ptxas", "cuobjdump"):
        script(home / "bin" / name)
    (home / "lib64").mkdir()
    (home / "lib64" / "libnvrtc.so.13.4.92").write_bytes(b"library")
    (home / "lib64" / "libnvrtc.so").symlink_to("libnvrtc.so.13.4.92")
    (home / "include").mkdir()
    (home / "include" / "cuda.h").write_text("// CUDA\n#define CUDA_VERSION 13040\n")
    return home


def record(site: Path, name: str, *files: Path) -> Path:
    """An installed distribution with these files, and its list of them."""
    info = site / f"{name}.dist-info"
    info.mkdir()
    rows = []
    for path in files:
        data = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{path.relative_to(site)},sha256={digest},{len(data)}\n")
    (info / "RECORD").write_text("".join(rows))
    return info


def wheels(site: Path, version: str = "13.4.92") -> Path:
    """Installed wheels: files below nvidia/cu13, and a file list."""
    base = site / "nvidia" / "cu13"
    script(base / "bin" / "ptxas")
    (base / "lib").mkdir()
    (base / "lib" / "libnvrtc.so.13").write_bytes(b"wheel library")
    record(site, f"nvidia_cuda_nvcc-{version}", base / "bin/ptxas", base / "lib/libnvrtc.so.13")
    return site


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_wheel_roots", list)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site-packages directory that holds the only wheels there are."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(
        search,
        "_wheel_roots",
        lambda: [search._Root(origin="wheel", path=folder / "nvidia" / "cu13", site=folder)],
    )
    return folder


def test_order_of_places(tmp_path: Path, site: Path) -> None:
    wheels(site)
    home, other = toolkit(tmp_path / "home"), toolkit(tmp_path / "other")
    search = ToolSearch(cuda_home=str(home), path=str(other / "bin"))
    assert find_tool("ptxas", search).origin == "wheel"
    system = ToolSearch(prefer="system", cuda_home=str(home), path=str(other / "bin"))
    assert (find_tool("ptxas", system).origin, find_tool("ptxas", system).path) == (
        "CUDA_HOME",
        str(home / "bin/ptxas"),
    )
    path_only = ToolSearch(prefer="system", path=str(other / "bin"))
    assert (find_tool("ptxas", path_only).origin, find_tool("libnvrtc", path_only).origin) == (
        "PATH",
        "PATH",
    )
    assert find_tool("nvcc", search).origin == "CUDA_HOME"  # the wheels have none


def test_a_system_toolkit_keeps_libnvvm_apart(tmp_path: Path, no_wheels: None) -> None:
    home = toolkit(tmp_path / "cuda")
    library = home / "nvvm" / "lib64" / "libnvvm.so.4"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"library")
    assert find_tool("libnvvm", ToolSearch(prefer="system", cuda_home=str(home))).path == str(
        library
    )


def test_a_missing_tool_names_every_place(tmp_path: Path, no_wheels: None) -> None:
    home = tmp_path / "empty"
    home.mkdir()
    with pytest.raises(ToolchainError) as caught:
        find_tool("ptxas", ToolSearch(cuda_home=str(home)))
    assert str(caught.value) == (
        f"ptxas not found; looked for:\n    {home}/bin/ptxas\n"
        "  fix: pip install 'tilec[build]' (all compilers as wheels, no CUDA installation needed)"
    )
    assert caught.value.exit_code == 3


def test_a_half_installed_toolchain(site: Path) -> None:
    wheels(site)
    with pytest.raises(
        ToolchainError,
        match=r"half installed \(there is ptxas 13\.4\.92 \(wheel\)\): libnvrtc-builtins and headers not found",
    ):
        require(("ptxas", "libnvrtc-builtins", "headers"), ToolSearch())


def test_parts_of_two_releases(tmp_path: Path, site: Path) -> None:
    wheels(site, "13.5.10")
    search = ToolSearch(cuda_home=str(toolkit(tmp_path / "cuda")), path="/bin")
    with pytest.raises(
        ToolchainError,
        match=r"is mixed(.|\n)*ptxas 13\.5\.10 \(wheel(.|\n)*nvcc 13\.4 \(CUDA_HOME",
    ) as caught:
        require(("ptxas", "nvcc"), search)
    assert "prefer" in caught.value.fix


def test_the_release_of_a_system_toolkit(tmp_path: Path, no_wheels: None) -> None:
    home = toolkit(tmp_path / "cuda")
    search = ToolSearch(cuda_home=str(home))
    assert {find_tool(name, search).version for name in ("nvcc", "libnvrtc")} == {"13.4"}
    (home / "version.json").write_text('{"cuda": {"version": "13.4.1"}}')
    assert find_tool("nvcc", search).version == "13.4.1"
    (home / "version.json").write_text("{")
    (home / "include/cuda.h").write_text("")
    with pytest.raises(ToolchainError, match=r"bin/nvcc: its toolkit's release is unknown"):
        find_tool("nvcc", search)


def test_headers_are_there_as_a_whole(site: Path) -> None:
    wheels(site)
    headers(site)
    (site / "nvidia/cu13/include/crt/host_defines.h").unlink()
    with pytest.raises(ToolchainError, match=r"looked for:\n    \S+/include/crt/host_defines\.h"):
        find_tool("headers", ToolSearch())


def test_out_of_the_manifests_range(site: Path) -> None:
    wheels(site, "13.5.10")
    with pytest.raises(
        ToolchainError,
        match=r"ptxas is of version 13\.5\.10, the manifest wants cuda >=13\.2,<13\.5",
    ):
        find_tool("ptxas", ToolSearch(cuda=">=13.2,<13.5"))


@pytest.mark.parametrize(
    ("version", "wanted", "holds"),
    [
        ("13.4.92", ">=13.2,<13.5", True),
        ("13.5.1", ">=13.2,<13.5", False),
        ("13.5", "<13.5", False),
        ("13.2", ">=13.2", True),
        ("13.1.99", ">=13.2", False),
        ("13.4.92", "==13.4.*", True),
        ("13.4.92", "==13.4", True),
        ("13.4.92", "!=13.4.*", False),
        ("13.4.92", "<=13.4", True),
        ("13.4.92", "~=13.4", True),
        ("14.0.0", "~=13.4", False),
        ("13.10.1", ">13.9", True),
        ("13.4.92", "", True),
        ("13.4.92", " >= 13.2 , < 14 ", True),
    ],
)
def test_ranges(version: str, wanted: str, holds: bool) -> None:
    assert check_range(version, wanted) is holds


@pytest.mark.parametrize("wanted", ["13.4", ">=", ">=13.x", "latest", ">=13.*"])
def test_what_is_no_range(wanted: str) -> None:
    with pytest.raises(UsageError, match="is no version range"):
        check_range("13.4", wanted)


def test_a_wheels_file_of_another_size_is_hashed(site: Path) -> None:
    wheels(site)
    ptxas = site / "nvidia/cu13/bin/ptxas"
    ptxas.write_text(ptxas.read_text() + "# changed\n")
    assert find_tool("ptxas", ToolSearch()).digest == file_sha256(ptxas)


def test_files_are_hashed_where_that_is_asked_for(site: Path) -> None:
    """With `--locked` neither a wheel's file list nor the status of a file says what it holds."""
    wheels(site)
    headers(site)
    names = ("ptxas", "headers")
    listed = require(names, ToolSearch())
    assert require(names, ToolSearch(verify=True)) == listed
    for file in (site / "nvidia/cu13/bin/ptxas", site / "nvidia/cu13/include/cuda_fp16.h"):
        data = file.read_bytes()
        file.write_bytes(data[:-1] + b"?")
    assert require(names, ToolSearch()) == listed, "as fast as it is blind"
    changed = require(names, ToolSearch(verify=True))
    assert changed["ptxas"].digest == file_sha256(site / "nvidia/cu13/bin/ptxas")
    assert changed["headers"].digest != listed["headers"].digest


def headers(site: Path) -> None:
    """A wheel of headers."""
    include = site / "nvidia" / "cu13" / "include"
    files = [include / name for name in search._TABLE["headers"].files]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("// f16\n")
    record(site, "nvidia_cuda_crt-13.4.92", *files)


def test_a_python_packages_files_are_hashed_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "compiler" / "__init__.py"
    file.parent.mkdir()
    file.write_text("good = 1\n")
    info = record(tmp_path, "compiler-1.0", file)
    (info / "METADATA").write_text("Name: compiler\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    def found(*, verify: bool) -> str:
        return package("compiler", "compiler/__init__.py", verify=verify).digest

    listed = found(verify=False)
    assert found(verify=True) == listed
    file.write_text("evil = 1\n")
    assert (found(verify=False), found(verify=True) == listed) == (listed, False)


def test_a_digest_is_read_from_its_record(tmp_path: Path) -> None:
    """The file is hashed if the record is damaged, exposed to other users, or not writable."""
    file, state = tmp_path / "ptxas", tmp_path / "state"
    file.write_bytes(b"x")
    digest = hashlib.sha256(b"x").hexdigest()
    assert file_sha256(file, str(state)) == digest
    (record,) = state.glob("v*/records/*/*")
    store.save(state, "records", record.name, b'{"sha256": "of the record"}', b"")
    assert file_sha256(file, str(state)) == "of the record"
    state.chmod(0o777)
    assert file_sha256(file, str(state)) == digest
    state.chmod(0o700)
    record.write_bytes(b"{")
    assert file_sha256(file, str(state)) == digest == file_sha256(file, str(file / "below-a-file"))


def test_a_file_with_the_size_time_and_inode_of_another_is_hashed(tmp_path: Path) -> None:
    """What is written over a compiler in place can get all of its status back but the change time."""
    file, state = tmp_path / "ptxas", str(tmp_path / "state")
    file.write_bytes(b"good")
    file_sha256(file, state)
    before = file.stat()
    file.write_bytes(b"evil")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_ino,
    )
    assert file_sha256(file, state) == hashlib.sha256(b"evil").hexdigest()


def test_a_tool_gets_no_environment_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    assert (
        run_tool(
            [sys.executable, "-c", "import os; print(os.environ.get('NVCC_APPEND_FLAGS'))"],
            timeout=30,
        ).stdout.strip()
        == "None"
    )


def test_a_tool_runs_at_fixed_addresses() -> None:
    own = Path("/proc/thread-self/personality").read_text()
    done = [run_tool(["/bin/cat", "/proc/self/maps"], timeout=30) for _ in range(3)]
    assert all(one.fixed for one in done)
    assert len({one.stdout for one in done}) == 1
    assert Path("/proc/thread-self/personality").read_text() == own, "this process is as before"


def test_a_time_limit_waits_for_no_child_of_the_tool(tmp_path: Path) -> None:
    """A child holds the pipes open. It goes with the caller's group."""
    command = ["/bin/sh", "-c", f"echo begun; sleep 600 & echo $! > {tmp_path}/child; wait"]
    done = run_tool(command, timeout=2.0)
    assert (done.timed_out, done.rc, done.stdout) == (True, -9, "begun\n")
    child = int((tmp_path / "child").read_text())
    assert os.getpgid(child) == os.getpgrp()
    os.kill(child, signal.SIGKILL)


def test_a_tool_that_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="cannot start"):
        run_tool([str(tmp_path / "none")], timeout=5)
