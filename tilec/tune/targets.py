"""Chooses the target to compile candidates for."""

from __future__ import annotations

from collections.abc import Sequence

from tilec.manifest.types import Manifest
from tilec_runtime.device.seam import DeviceInfo
from tilec_runtime.errors import UsageError
from tilec_runtime.model.arch import ARCHS, Target, TargetKind
from tilec_runtime.model.jit import JitFallback

_TILEIR = Target(TargetKind.TILEIR)


def target_for(manifest: Manifest, kernel: str, device: DeviceInfo | None, wanted: str) -> Target:
    """Return the target to tune for.

    Args:
        manifest: of the project; a build uses records of its targets only.
        kernel: name of the kernel, for messages.
        device: to measure on; None if it is in another machine.
        wanted: `--target`; empty for the one that fits.

    Raises:
        UsageError: no target of the project runs on the device, or several might be meant.
    """
    known = _known(manifest)
    if wanted:
        try:
            target = Target.parse(wanted)
        except ValueError as error:
            raise UsageError(f"--target: {error}") from error
        if target not in known:
            message = f"--target {target} is no target of this project, so a build would not use its record"
            raise UsageError(
                message, fix=f"add it to [targets]; there are {', '.join(map(str, known))}"
            )
        if (
            device is not None
            and target.kind is TargetKind.PTX
            and not _compiles(manifest)
            and target.runs_on(device.cc)
        ):
            message = f"--target {target}: {device} would have to compile it at load, and jit-fallback is deny"
            raise UsageError(
                message, fix='set jit-fallback = "allow" in [targets], or tune for machine code'
            )
        if device is not None and not _runs(target, device, manifest):
            raise UsageError(
                f"--target {target} does not run on {device}",
                fix="leave --target out, or choose another device",
            )
        return target
    if device is not None:
        fits = [target for target in known if _runs(target, device, manifest)]
        if fits:
            return fits[0]
        need = "tileir" if device.interprets else f"sm_{device.cc[0]}{device.cc[1]}"
        message = (
            f"kernel {kernel} cannot be tuned on {device}: no target of this project runs there"
        )
        raise UsageError(
            message, fix=f"add {need} to [targets]; there are {', '.join(map(str, known))}"
        )
    cubins = [target for target in known if target.kind is TargetKind.CUBIN]
    if len(cubins) != 1:
        message = f"this project has {len(cubins)} machine code targets: name one"
        raise UsageError(
            message,
            fix=f"--target {cubins[0] if cubins else 'NAME'}; there are {', '.join(map(str, known))}",
        )
    return cubins[0]


def _known(manifest: Manifest) -> Sequence[Target]:
    """Return the targets of the project, the most specific first."""
    known = {
        target
        for targets in (manifest.targets.default, *(each for _, each in manifest.targets.groups))
        for target in targets
    }
    kinds = list(TargetKind)
    return sorted(
        known,
        key=lambda target: (
            kinds.index(target.kind),
            [-part for part in target.cc],
            ("a", "f", "").index(target.suffix),
        ),
    )


def _compiles(manifest: Manifest) -> bool:
    return manifest.targets.jit_fallback in (JitFallback.WARN, JitFallback.ALLOW)


def _runs(target: Target, device: DeviceInfo, manifest: Manifest) -> bool:
    if device.interprets:
        return target == _TILEIR
    if target.kind in (TargetKind.TILEIR, TargetKind.LTOIR):
        return False  # this machine's compiler would be measured, not what is shipped
    if target.kind is TargetKind.PTX and not _compiles(manifest):
        return False
    # Whether a plain cubin is one of a tile kernel, which runs on its own capability alone, shows
    # when it is built: exact is safe.
    exact = target.kind is TargetKind.CUBIN and target.cc in ARCHS
    return target.runs_on(device.cc, exact=exact)
