"""What the common CUDA result codes mean for a user of tilec: usual cause and next step, as one table."""

from __future__ import annotations

# A result that leaves the context unusable: every later call in this process fails too.
_STICKY = "the process must be restarted: after this error every call on the device fails"

ADVICE: dict[str, tuple[str, str]] = {
    "CUDA_ERROR_INVALID_VALUE": (
        "a number handed to the driver is out of its range, or an address is not one of its own",
        "check that every argument is alive and on this device",
    ),
    "CUDA_ERROR_OUT_OF_MEMORY": (
        "the device has no free memory of this size; memory that a framework caches counts as used",
        "free tensors (and the framework's cache), or use smaller inputs",
    ),
    "CUDA_ERROR_NOT_INITIALIZED": (
        "the process was forked after CUDA had started",
        "start worker processes with the spawn method",
    ),
    "CUDA_ERROR_DEINITIALIZED": ("the driver is shutting down with the process", "launch nothing from exit handlers"),
    "CUDA_ERROR_NO_DEVICE": (
        "there is no NVIDIA GPU, or CUDA_VISIBLE_DEVICES hides it",
        "look at nvidia-smi and CUDA_VISIBLE_DEVICES",
    ),
    "CUDA_ERROR_INVALID_DEVICE": (
        "there is no device of this number",
        "count the devices with nvidia-smi -L; CUDA_VISIBLE_DEVICES renumbers them",
    ),
    "CUDA_ERROR_DEVICE_NOT_LICENSED": ("the virtual GPU has no licence", "license the virtual GPU"),
    "CUDA_ERROR_INVALID_IMAGE": (
        "the driver cannot read the image: it is damaged, or newer than the driver",
        "run tilec inspect on the bundle, and update the driver or build with a lower min-driver",
    ),
    "CUDA_ERROR_INVALID_CONTEXT": (
        "another library destroyed or reset the device's primary context",
        "reset no device in a process that uses tilec",
    ),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": (
        "the image was made for another GPU architecture",
        "build with a target that this GPU runs; tilec inspect lists those of the bundle",
    ),
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": (
        "the PTX is of a newer ISA than the driver reads",
        "update the driver, or build with min-driver set to this driver's branch",
    ),
    "CUDA_ERROR_INVALID_PTX": ("the driver's compiler refuses the PTX", "build a cubin for this GPU, or update the driver"),
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": (
        "the driver was installed without its PTX compiler (libnvidia-ptxjitcompiler)",
        "install the complete driver, or build a cubin for this GPU",
    ),
    "CUDA_ERROR_NOT_FOUND": ("the image has no entry point of this name", "build the bundle again: its index and its images disagree"),
    "CUDA_ERROR_INVALID_HANDLE": (
        "the stream was destroyed, or belongs to another device",
        "pass a live stream of the kernel's device",
    ),
    "CUDA_ERROR_ILLEGAL_ADDRESS": (
        "a kernel that ran before this call read or wrote memory that is not its own",
        f"look for the kernel with compute-sanitizer; {_STICKY}",
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": (
        "a kernel that ran before this call used an address that is not aligned to the access",
        f"look for the kernel with compute-sanitizer; {_STICKY}",
    ),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": (
        "a kernel that ran before this call trapped (an assertion, or code of another architecture)",
        f"look for the kernel with compute-sanitizer; {_STICKY}",
    ),
    "CUDA_ERROR_ASSERT": ("an assertion in a kernel failed", f"its text is on standard output; {_STICKY}"),
    "CUDA_ERROR_LAUNCH_FAILED": (
        "a kernel that ran before this call failed, most often by an illegal address",
        f"look for the kernel with compute-sanitizer; {_STICKY}",
    ),
    "CUDA_ERROR_LAUNCH_TIMEOUT": ("a kernel ran longer than the display's watchdog allows", f"use a GPU without a display; {_STICKY}"),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "the block needs more registers or shared memory than the device has",
        "use a smaller block, or bound it in the source (__launch_bounds__)",
    ),
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": (
        "all blocks of a cooperative launch must be resident at once, and these are too many",
        "use a smaller grid, and a loop over the work in the kernel",
    ),
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": ("the device has no clusters of this size", "use a smaller cluster (8 blocks are portable)"),
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": (
        "the call cannot be part of a CUDA graph, and its stream is being captured",
        "launch the kernel once before the capture begins, so that it is loaded",
    ),
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": (
        "a call on the legacy default stream came into a capture of another stream",
        "pass the captured stream",
    ),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        "the kernel module and libcuda are of different releases",
        "restart the machine after a driver update",
    ),
    "CUDA_ERROR_SYSTEM_NOT_READY": ("a service of the system (such as the fabric manager) does not run", "start it, then try again"),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": (
        "the forward-compatibility libcuda does not serve this GPU",
        "remove the cuda-compat package from the library path",
    ),
    "CUDA_ERROR_ECC_UNCORRECTABLE": ("the device's memory has a hardware fault", "look at nvidia-smi -q, and reset or replace the GPU"),
}

STICKY = frozenset(name for name, (_, fix) in ADVICE.items() if _STICKY in fix)
# Results of the first call that mean: there is nothing to run on.
NO_DEVICE = frozenset(
    {
        "CUDA_ERROR_NO_DEVICE",
        "CUDA_ERROR_INVALID_DEVICE",
        "CUDA_ERROR_STUB_LIBRARY",
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
    }
)
