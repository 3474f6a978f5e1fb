"""Versions of drivers, CUDA releases and PTX ISAs, and their conversions."""

from __future__ import annotations

from tilec_runtime.model.arch import Version

# Oldest driver branch (Linux) of each CUDA release.
BRANCHES: dict[Version, int] = {
    (11, 0): 450,
    (11, 1): 455,
    (11, 2): 460,
    (11, 3): 465,
    (11, 4): 470,
    (11, 5): 495,
    (11, 6): 510,
    (11, 7): 515,
    (11, 8): 520,
    (12, 0): 525,
    (12, 1): 530,
    (12, 2): 535,
    (12, 3): 545,
    (12, 4): 550,
    (12, 5): 555,
    (12, 6): 560,
    (12, 7): 565,
    (12, 8): 570,
    (12, 9): 575,
    (13, 0): 580,
    (13, 1): 590,
    (13, 2): 595,
    (13, 3): 610,
    (13, 4): 615,
}


def cuda_of_branch(branch: int) -> Version | None:
    """Return the newest CUDA release of a driver branch, or None if it is too old."""
    known = [cuda for cuda, first in BRANCHES.items() if first <= branch]
    return max(known) if known else None


def branch_of_cuda(cuda: Version) -> int | None:
    """Return the oldest driver branch for a CUDA release, or None if it is too new."""
    known = [branch for release, branch in BRANCHES.items() if release >= cuda]
    return min(known) if known else None


def ptx_isa_of_cuda(cuda: Version) -> Version:
    """Return the newest PTX ISA of a CUDA release (10.0 or later)."""
    major, minor = cuda
    if major <= 10:
        return (6, minor + 3)
    if major == 11:
        return (7, minor)
    if major == 12:
        return (8, minor if minor < 6 else minor - 1)
    return (major - 4, minor)


def cuda_of_ptx_isa(isa: Version) -> Version:
    """Return the oldest CUDA release (10.0 or later) whose driver accepts a PTX ISA."""
    major, minor = isa
    if major <= 6:
        return (10, max(0, minor - 3) if major == 6 else 0)
    if major == 7:
        return (11, minor)
    if major == 8:
        return (12, minor if minor <= 5 else minor + 1)
    return (major + 4, minor)


def required_driver(cuda: Version) -> str:
    """Format the required driver, such as `CUDA 13.4 (driver branch 615 or later)`."""
    branch = branch_of_cuda(cuda)
    release = f"CUDA {cuda[0]}.{cuda[1]}"
    return f"{release} (driver branch {branch} or later)" if branch else release


def driver_of_ptx_isa(isa: Version) -> str:
    """Format the oldest driver for a PTX ISA for `min-driver`, as `580 (CUDA 13.0)`."""
    cuda = cuda_of_ptx_isa(isa)
    release, branch = f"CUDA {cuda[0]}.{cuda[1]}", BRANCHES.get(cuda)
    return f"{branch} ({release})" if branch else f"the driver of {release}"
