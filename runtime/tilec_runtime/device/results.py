"""Usual cause and next step of each CUDA driver result; final results."""

from __future__ import annotations

# The next step of results that leave the context unusable.
_STICKY = "the process must be restarted: after this error every call on the device fails"
_SANITIZER = "look for the launch with compute-sanitizer"

ADVICE: dict[str, tuple[str, str]] = {
    # Values, memory, start
    "CUDA_ERROR_INVALID_VALUE": (
        "a grid or block is 0, or beyond the device's limits or the kernel's bounds, or an address is none of the device's",
        "check grid and block, and that every argument is alive and on this device",
    ),
    "CUDA_ERROR_OUT_OF_MEMORY": (
        "the device has no free memory of this size; memory that a framework caches counts as used",
        "free tensors (and the framework's cache), or use smaller inputs",
    ),
    "CUDA_ERROR_NOT_INITIALIZED": (
        "the process was forked after CUDA had started",
        "start worker processes with the spawn method",
    ),
    "CUDA_ERROR_DEINITIALIZED": (
        "the driver is shutting down with the process",
        "launch nothing from exit handlers",
    ),
    "CUDA_ERROR_STUB_LIBRARY": (
        "the libcuda that was found is the toolkit's stub for linking, not the driver's",
        "remove the toolkit's stubs directory from the library path",
    ),
    "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER": (
        "the driver is older than what this call needs",
        "update the driver",
    ),
    "CUDA_ERROR_DEVICE_UNAVAILABLE": (
        "another process has the device to itself (exclusive mode), or MPS lets nobody else in",
        "end the other process, or set the compute mode to default: nvidia-smi -c 0",
    ),
    "CUDA_ERROR_NO_DEVICE": (
        "there is no NVIDIA GPU, or CUDA_VISIBLE_DEVICES hides it",
        "look at nvidia-smi and CUDA_VISIBLE_DEVICES",
    ),
    "CUDA_ERROR_INVALID_DEVICE": (
        "there is no device of this number",
        "count the devices with nvidia-smi -L; CUDA_VISIBLE_DEVICES renumbers them",
    ),
    "CUDA_ERROR_DEVICE_NOT_LICENSED": ("the virtual GPU has no licence", "license the virtual GPU"),
    # Images
    "CUDA_ERROR_INVALID_IMAGE": (
        "the driver cannot read the image: it is damaged, or newer than the driver",
        "run tilec inspect on the bundle, and update the driver or build with a lower min-driver",
    ),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": (
        "the image was made for another GPU architecture",
        "build with a target that this GPU runs; tilec inspect lists those of the bundle",
    ),
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": (
        "the PTX is of a newer ISA than the driver reads",
        "update the driver, or build with min-driver set to this driver's branch",
    ),
    "CUDA_ERROR_INVALID_PTX": (
        "the driver's compiler refuses the PTX: it is for another GPU, or not valid",
        "build a cubin for this GPU, or update the driver",
    ),
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": (
        "the driver was installed without its PTX compiler (libnvidia-ptxjitcompiler)",
        "install the complete driver, or build a cubin for this GPU",
    ),
    "CUDA_ERROR_JIT_COMPILATION_DISABLED": (
        "the environment forbids the driver to compile PTX (CUDA_DISABLE_PTX_JIT)",
        "unset it, or build a cubin for this GPU",
    ),
    "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC": (
        "the image waits for launches inside of a kernel (cudaDeviceSynchronize), which GPUs from compute capability 9.0 on do not do",
        "take the call out of the kernel, and build again",
    ),
    "CUDA_ERROR_INVALID_SOURCE": (
        "the image is no code that the driver knows, or is damaged",
        "run tilec inspect on the bundle, and build it again",
    ),
    "CUDA_ERROR_FILE_NOT_FOUND": (
        "the driver was asked for a file that is not there",
        "look at the path",
    ),
    "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND": (
        "a part of the driver's libraries is missing or of another release",
        "install the driver again, and look for a second libcuda on the library path",
    ),
    "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED": (
        "a library of the driver cannot be started",
        "install the driver again, and look for a second libcuda on the library path",
    ),
    "CUDA_ERROR_NOT_FOUND": (
        "the image has no entry point of this name",
        "compare the name with tilec inspect; of a bundle, build it again: its index and its images disagree",
    ),
    "CUDA_ERROR_FUNCTION_NOT_LOADED": (
        "the function is to be loaded at its first use, and that was not possible",
        "launch the kernel once before, or set CUDA_MODULE_LOADING=EAGER",
    ),
    # Contexts, handles, state
    "CUDA_ERROR_INVALID_CONTEXT": (
        "another library destroyed or reset the device's primary context",
        "reset no device in a process that uses tilec",
    ),
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": (
        "another library destroyed or reset the device's primary context (cudaDeviceReset)",
        f"reset no device in a process that uses tilec; {_STICKY}",
    ),
    "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE": (
        "the device's primary context is in use, and its settings cannot change any more",
        "change them before the first use of CUDA",
    ),
    "CUDA_ERROR_INVALID_HANDLE": (
        "the stream was destroyed, or belongs to another device",
        "pass a live stream of the kernel's device",
    ),
    "CUDA_ERROR_ILLEGAL_STATE": (
        "what the call is about is in a state that does not allow it, such as a graph that is being changed",
        "finish or end what was begun with it, then call again",
    ),
    "CUDA_ERROR_NOT_READY": (
        "work that was asked about is not done yet",
        "wait for the stream or the event",
    ),
    "CUDA_ERROR_UNSUPPORTED_LIMIT": (
        "the device has no limit of this kind",
        "leave the limit as it is",
    ),
    "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY": (
        "the device does not divide its multiprocessors as it was asked to",
        "take the context without an execution affinity",
    ),
    "CUDA_ERROR_TIMEOUT": (
        "something that the call waited for took too long",
        "look at what else uses the device (nvidia-smi), and try again",
    ),
    "CUDA_ERROR_OPERATING_SYSTEM": (
        "a call of the operating system failed: out of host memory, file handles or address space, or a limit of the container",
        "look at ulimit -a, the container's limits and dmesg",
    ),
    "CUDA_ERROR_NOT_PERMITTED": (
        "the call is not allowed here: inside of a host callback, during a capture, or by the rights of this process",
        "make the call from outside of callbacks and captures",
    ),
    "CUDA_ERROR_NOT_SUPPORTED": (
        "the device or the driver cannot do this (memory pools, clusters, cooperative launches are not on all of them)",
        "look at what the device supports (tilec doctor), and update the driver",
    ),
    "CUDA_ERROR_UNKNOWN": (
        "the driver failed inside, often after a crash of the GPU, a suspended machine or a driver update without a restart",
        "look for Xid lines in dmesg, then restart the process, or the machine",
    ),
    # Launches
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "the block needs more registers or shared memory than the device has",
        "use a smaller block, or bound it in the source (__launch_bounds__)",
    ),
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": (
        "all blocks of a cooperative launch must be resident at once, and these are too many",
        "use a smaller grid, and a loop over the work in the kernel",
    ),
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": (
        "the device has no clusters of this size",
        "use a smaller cluster (8 blocks are portable)",
    ),
    "CUDA_ERROR_CDP_NOT_SUPPORTED": (
        "the kernel launches kernels itself, and the device or MPS does not allow that",
        "launch from the host instead",
    ),
    "CUDA_ERROR_CDP_VERSION_MISMATCH": (
        "the kernel launches kernels itself, and its runtime is of another version than the driver's",
        "build it again with a toolkit of this driver's release",
    ),
    # A kernel, or the hardware, failed: final
    "CUDA_ERROR_ILLEGAL_ADDRESS": (
        "a kernel that ran before this call read or wrote memory that is not its own",
        f"{_SANITIZER}; {_STICKY}",
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": (
        "a kernel that ran before this call used an address that is not aligned to the access",
        f"{_SANITIZER}; {_STICKY}",
    ),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": (
        "a kernel that ran before this call used an address of another memory (shared for global, or the like)",
        f"{_SANITIZER}; {_STICKY}",
    ),
    "CUDA_ERROR_INVALID_PC": (
        "a kernel that ran before this call jumped to where no code is: a broken function pointer, or an overwritten stack",
        f"{_SANITIZER}; {_STICKY}",
    ),
    "CUDA_ERROR_HARDWARE_STACK_ERROR": (
        "a kernel that ran before this call used up its stack, or destroyed it",
        f"call less deeply, or raise the stack limit; {_SANITIZER}; {_STICKY}",
    ),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": (
        "a kernel that ran before this call trapped (an assertion, or code of another architecture)",
        f"{_SANITIZER}; {_STICKY}",
    ),
    "CUDA_ERROR_ASSERT": (
        "an assertion in a kernel failed",
        f"its text is on standard error; {_STICKY}",
    ),
    "CUDA_ERROR_LAUNCH_FAILED": (
        "a kernel that ran before this call failed: a trap, or an illegal address",
        f"{_SANITIZER}; {_STICKY}",
    ),
    "CUDA_ERROR_LAUNCH_TIMEOUT": (
        "a kernel ran longer than the display's watchdog allows",
        f"use a GPU without a display; {_STICKY}",
    ),
    "CUDA_ERROR_TENSOR_MEMORY_LEAK": (
        "a kernel that ran before this call ended without giving back all of its tensor memory",
        f"free on every path what the kernel allocates; {_STICKY}",
    ),
    "CUDA_ERROR_ECC_UNCORRECTABLE": (
        "the device's memory has a hardware fault",
        f"look at nvidia-smi -q, and reset or replace the GPU; {_STICKY}",
    ),
    "CUDA_ERROR_NVLINK_UNCORRECTABLE": (
        "the connection between GPUs (NVLink) has a hardware fault",
        f"look at nvidia-smi nvlink -e, and reset or replace the GPU; {_STICKY}",
    ),
    "CUDA_ERROR_CONTAINED": (
        "a fault of the hardware, or of an access to another GPU's memory, was contained on this device",
        f"look at nvidia-smi -q and dmesg, and at accesses to other GPUs' memory; {_STICKY}",
    ),
    "CUDA_ERROR_MPS_CLIENT_TERMINATED": (
        "another client of MPS on this GPU failed, and MPS ended this one too",
        f"look for the failing client, and run untested kernels without MPS; {_STICKY}",
    ),
    "CUDA_ERROR_EXTERNAL_DEVICE": (
        "a device that is no GPU, and whose data a kernel waited for, said that they are not valid",
        "look at that device; if later calls fail too, restart the process",
    ),
    # Several GPUs
    "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED": (
        "these two GPUs cannot reach each other's memory",
        "copy through the host; nvidia-smi topo -p2p r shows which pairs can",
    ),
    "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED": (
        "access to the other GPU's memory was allowed before",
        "go on: it is allowed",
    ),
    "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED": (
        "access to the other GPU's memory was never allowed",
        "allow it first (torch and CuPy do so at a copy between the two)",
    ),
    "CUDA_ERROR_TOO_MANY_PEERS": (
        "the device is connected to as many GPUs as it can be",
        "use fewer GPUs in one process",
    ),
    "CUDA_ERROR_MULTICAST_RESOURCE_FULL": (
        "the GPUs' multicast is used up",
        "end other users of NVLink multicast",
    ),
    "CUDA_ERROR_FABRIC_NOT_READY": (
        "the GPUs' fabric is not up yet",
        "wait for the fabric manager, then try again",
    ),
    "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED": (
        "this host memory is pinned already",
        "use it as it is",
    ),
    "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED": (
        "this host memory is not pinned",
        "pin it first, or free it as what it is",
    ),
    # Captures and graphs
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": (
        "the call cannot be part of a CUDA graph, such as to wait for a stream that is being captured, or for the device",
        "make the call before the capture begins, or after it",
    ),
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": (
        "an earlier call that cannot be captured broke the capture of this stream",
        "end the capture, take the call out of it, and capture again",
    ),
    "CUDA_ERROR_STREAM_CAPTURE_MERGE": (
        "two captures would become one: a stream of one waits for an event of the other",
        "capture both in one graph, or let them wait for each other outside",
    ),
    "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED": (
        "the capture was begun on another stream",
        "end a capture on the stream on which it was begun",
    ),
    "CUDA_ERROR_STREAM_CAPTURE_UNJOINED": (
        "a stream that joined the capture was not brought back to the one on which it was begun",
        "let the first stream wait for the other before the capture ends",
    ),
    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": (
        "a captured stream would wait for work outside of the capture",
        "wait for that work before the capture begins",
    ),
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": (
        "a call on the legacy default stream came into a capture of another stream",
        "pass the captured stream",
    ),
    "CUDA_ERROR_CAPTURED_EVENT": (
        "the event was recorded while its stream was captured: it is a place in a graph, and nothing to wait for",
        "wait for the stream on which the graph is launched",
    ),
    "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD": (
        "the capture was begun by another thread",
        "end it there, or capture in the relaxed mode",
    ),
    "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE": (
        "the new graph has other nodes than the one that is to be updated",
        "make a new graph",
    ),
    "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE": (
        "what was captured anew does not fit the graph that it is for",
        "make a new graph",
    ),
    "CUDA_ERROR_STREAM_DETACHED": (
        "the stream's context is gone, and the stream with it",
        "make a new stream",
    ),
    # The system
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        "the kernel module and libcuda are of different releases",
        "restart the machine after a driver update",
    ),
    "CUDA_ERROR_SYSTEM_NOT_READY": (
        "a service of the system (such as the fabric manager) does not run",
        "start it, then try again",
    ),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": (
        "the forward-compatibility libcuda does not serve this GPU",
        "remove the cuda-compat package from the library path",
    ),
    "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION": (
        "the driver's loader is older than what it is to load",
        "update the driver",
    ),
    "CUDA_ERROR_MPS_CONNECTION_FAILED": (
        "the MPS daemon cannot be reached",
        "start it (nvidia-cuda-mps-control -d), or unset CUDA_MPS_PIPE_DIRECTORY",
    ),
    "CUDA_ERROR_MPS_RPC_FAILURE": ("the MPS server does not answer", "restart the MPS daemon"),
    "CUDA_ERROR_MPS_SERVER_NOT_READY": (
        "the MPS server starts, or recovers from another client's fault",
        "try again in a moment",
    ),
    "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED": (
        "MPS serves as many processes as it can",
        "end some of them",
    ),
    "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED": (
        "the GPU has no connections left for another client of MPS",
        "end other clients, or set CUDA_DEVICE_MAX_CONNECTIONS lower",
    ),
}

# Results after which every call on the device fails in this process; those that a kernel causes.
STICKY = frozenset(name for name, (_, fix) in ADVICE.items() if _STICKY in fix)
KERNEL_FAULTS = STICKY - {
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "CUDA_ERROR_CONTAINED",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_MPS_CLIENT_TERMINATED",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
}
# Results of the first call that mean that no GPU can be used.
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


def advice(name: str) -> tuple[str, str]:
    """Return the usual cause and next step of a result, even of an unknown one."""
    known = ADVICE.get(name)
    return known or (
        "",
        f"look {name} up in the documentation of the CUDA driver API, and at what the process does besides tilec",
    )
