"""Compiles device functions of CUDA C++ with NVRTC, for kernels that are linked with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilec.frontends.tools.cpp.nvrtc import Folders, Program, compile_nowhere, inside, load
from tilec.frontends.tools.search import Tool


def compile_device(
    tools: Mapping[str, Tool],
    source: bytes,
    name: str,
    *,
    root: str,
    arch: str,
    arguments: Sequence[str] = (),
    include: Sequence[str] = (),
    timeout: float,
    portable: bool,
) -> Program:
    """Compile a source to LTO-IR.

    Args:
        tools: NVRTC, its builtins, and the toolkit's headers.
        source: CUDA C++ text without zero bytes.
        name: its name, relative to `root`.
        root: the project's directory.
        arch: virtual architecture, such as `compute_90`.
        arguments: dialect, defines and flags; line information only where the result is not
            `portable`.
        include: directories relative to `root`.
        timeout: seconds.
        portable: the LTO-IR is shipped, and must not name directories of this machine.

    Raises:
        ToolchainError: NVRTC cannot be used.
    """
    headers = tools["headers"].path
    library = load(tools["libnvrtc"].path, tools["libnvrtc-builtins"].path)
    # A fixed seed: NVRTC would put its process id into the names of what is local to a file.
    own = [f"--gpu-architecture={arch}", "-dlto", "-rdc=true", "-frandom-seed=tilec", *arguments]
    if portable:
        return compile_nowhere(
            library,
            source,
            name,
            own,
            Folders(root=root, toolkit=headers, include=include),
            timeout=timeout,
        )
    folders = [f"-I{folder}" for folder in (*include, headers, f"{headers}/cccl")]
    with inside(root):
        return library.compile(
            source, name, [*own, *folders], names=(), ptx=False, timeout=timeout, lto=True
        )
