"""One table for the numbers of CUDA and NVML: their names, what they mean, and the findings they lead to."""

from __future__ import annotations

from typing import NamedTuple

# Number, name in the driver's header, name in the runtime's ("-" where it has none), from the headers of CUDA 13.
_CUDA = """
1 INVALID_VALUE InvalidValue, 2 OUT_OF_MEMORY MemoryAllocation, 3 NOT_INITIALIZED InitializationError,
4 DEINITIALIZED CudartUnloading, 5 PROFILER_DISABLED ProfilerDisabled,
6 PROFILER_NOT_INITIALIZED ProfilerNotInitialized, 7 PROFILER_ALREADY_STARTED ProfilerAlreadyStarted,
8 PROFILER_ALREADY_STOPPED ProfilerAlreadyStopped, 9 - InvalidConfiguration, 10 - VersionTranslation,
12 - InvalidPitchValue, 13 - InvalidSymbol, 16 - InvalidHostPointer, 17 - InvalidDevicePointer,
18 - InvalidTexture, 19 - InvalidTextureBinding, 20 - InvalidChannelDescriptor, 21 - InvalidMemcpyDirection,
22 - AddressOfConstant, 23 - TextureFetchFailed, 24 - TextureNotBound, 25 - SynchronizationError,
26 - InvalidFilterSetting, 27 - InvalidNormSetting, 28 - MixedDeviceExecution, 31 - NotYetImplemented,
32 - MemoryValueTooLarge, 34 STUB_LIBRARY StubLibrary, 35 - InsufficientDriver,
36 CALL_REQUIRES_NEWER_DRIVER CallRequiresNewerDriver, 37 - InvalidSurface, 43 - DuplicateVariableName,
44 - DuplicateTextureName, 45 - DuplicateSurfaceName, 46 DEVICE_UNAVAILABLE DevicesUnavailable,
47 MULTICAST_RESOURCE_FULL -, 49 - IncompatibleDriverContext, 52 - MissingConfiguration,
53 - PriorLaunchFailure, 65 - LaunchMaxDepthExceeded, 66 - LaunchFileScopedTex, 67 - LaunchFileScopedSurf,
68 - SyncDepthExceeded, 69 - LaunchPendingCountExceeded, 98 - InvalidDeviceFunction, 100 NO_DEVICE NoDevice,
101 INVALID_DEVICE InvalidDevice, 102 DEVICE_NOT_LICENSED DeviceNotLicensed,
103 - SoftwareValidityNotEstablished, 127 - StartupFailure, 200 INVALID_IMAGE InvalidKernelImage,
201 INVALID_CONTEXT DeviceUninitialized, 202 CONTEXT_ALREADY_CURRENT -, 205 MAP_FAILED MapBufferObjectFailed,
206 UNMAP_FAILED UnmapBufferObjectFailed, 207 ARRAY_IS_MAPPED ArrayIsMapped, 208 ALREADY_MAPPED AlreadyMapped,
209 NO_BINARY_FOR_GPU NoKernelImageForDevice, 210 ALREADY_ACQUIRED AlreadyAcquired, 211 NOT_MAPPED NotMapped,
212 NOT_MAPPED_AS_ARRAY NotMappedAsArray, 213 NOT_MAPPED_AS_POINTER NotMappedAsPointer,
214 ECC_UNCORRECTABLE ECCUncorrectable, 215 UNSUPPORTED_LIMIT UnsupportedLimit,
216 CONTEXT_ALREADY_IN_USE DeviceAlreadyInUse, 217 PEER_ACCESS_UNSUPPORTED PeerAccessUnsupported,
218 INVALID_PTX InvalidPtx, 219 INVALID_GRAPHICS_CONTEXT InvalidGraphicsContext,
220 NVLINK_UNCORRECTABLE NvlinkUncorrectable, 221 JIT_COMPILER_NOT_FOUND JitCompilerNotFound,
222 UNSUPPORTED_PTX_VERSION UnsupportedPtxVersion, 223 JIT_COMPILATION_DISABLED JitCompilationDisabled,
224 UNSUPPORTED_EXEC_AFFINITY UnsupportedExecAffinity, 225 UNSUPPORTED_DEVSIDE_SYNC UnsupportedDevSideSync,
226 CONTAINED Contained, 227 INSUFFICIENT_LOADER_VERSION InsufficientLoaderVersion,
300 INVALID_SOURCE InvalidSource, 301 FILE_NOT_FOUND FileNotFound,
302 SHARED_OBJECT_SYMBOL_NOT_FOUND SharedObjectSymbolNotFound,
303 SHARED_OBJECT_INIT_FAILED SharedObjectInitFailed, 304 OPERATING_SYSTEM OperatingSystem,
400 INVALID_HANDLE InvalidResourceHandle, 401 ILLEGAL_STATE IllegalState, 402 LOSSY_QUERY LossyQuery,
500 NOT_FOUND SymbolNotFound, 600 NOT_READY NotReady, 700 ILLEGAL_ADDRESS IllegalAddress,
701 LAUNCH_OUT_OF_RESOURCES LaunchOutOfResources, 702 LAUNCH_TIMEOUT LaunchTimeout,
703 LAUNCH_INCOMPATIBLE_TEXTURING LaunchIncompatibleTexturing,
704 PEER_ACCESS_ALREADY_ENABLED PeerAccessAlreadyEnabled, 705 PEER_ACCESS_NOT_ENABLED PeerAccessNotEnabled,
708 PRIMARY_CONTEXT_ACTIVE SetOnActiveProcess, 709 CONTEXT_IS_DESTROYED ContextIsDestroyed, 710 ASSERT Assert,
711 TOO_MANY_PEERS TooManyPeers, 712 HOST_MEMORY_ALREADY_REGISTERED HostMemoryAlreadyRegistered,
713 HOST_MEMORY_NOT_REGISTERED HostMemoryNotRegistered, 714 HARDWARE_STACK_ERROR HardwareStackError,
715 ILLEGAL_INSTRUCTION IllegalInstruction, 716 MISALIGNED_ADDRESS MisalignedAddress,
717 INVALID_ADDRESS_SPACE InvalidAddressSpace, 718 INVALID_PC InvalidPc, 719 LAUNCH_FAILED LaunchFailure,
720 COOPERATIVE_LAUNCH_TOO_LARGE CooperativeLaunchTooLarge, 721 TENSOR_MEMORY_LEAK TensorMemoryLeak,
800 NOT_PERMITTED NotPermitted, 801 NOT_SUPPORTED NotSupported, 802 SYSTEM_NOT_READY SystemNotReady,
803 SYSTEM_DRIVER_MISMATCH SystemDriverMismatch, 804 COMPAT_NOT_SUPPORTED_ON_DEVICE CompatNotSupportedOnDevice,
805 MPS_CONNECTION_FAILED MpsConnectionFailed, 806 MPS_RPC_FAILURE MpsRpcFailure,
807 MPS_SERVER_NOT_READY MpsServerNotReady, 808 MPS_MAX_CLIENTS_REACHED MpsMaxClientsReached,
809 MPS_MAX_CONNECTIONS_REACHED MpsMaxConnectionsReached, 810 MPS_CLIENT_TERMINATED MpsClientTerminated,
811 CDP_NOT_SUPPORTED CdpNotSupported, 812 CDP_VERSION_MISMATCH CdpVersionMismatch,
900 STREAM_CAPTURE_UNSUPPORTED StreamCaptureUnsupported,
901 STREAM_CAPTURE_INVALIDATED StreamCaptureInvalidated, 902 STREAM_CAPTURE_MERGE StreamCaptureMerge,
903 STREAM_CAPTURE_UNMATCHED StreamCaptureUnmatched, 904 STREAM_CAPTURE_UNJOINED StreamCaptureUnjoined,
905 STREAM_CAPTURE_ISOLATION StreamCaptureIsolation, 906 STREAM_CAPTURE_IMPLICIT StreamCaptureImplicit,
907 CAPTURED_EVENT CapturedEvent, 908 STREAM_CAPTURE_WRONG_THREAD StreamCaptureWrongThread,
909 TIMEOUT Timeout, 910 GRAPH_EXEC_UPDATE_FAILURE GraphExecUpdateFailure, 911 EXTERNAL_DEVICE ExternalDevice,
912 INVALID_CLUSTER_SIZE InvalidClusterSize, 913 FUNCTION_NOT_LOADED FunctionNotLoaded,
914 INVALID_RESOURCE_TYPE InvalidResourceType, 915 INVALID_RESOURCE_CONFIGURATION InvalidResourceConfiguration,
916 KEY_ROTATION -, 917 STREAM_DETACHED StreamDetached, 918 GRAPH_RECAPTURE_FAILURE GraphRecaptureFailure,
919 FABRIC_NOT_READY FabricNotReady, 999 UNKNOWN Unknown
"""
_NVML = """
1 UNINITIALIZED, 2 INVALID_ARGUMENT, 3 NOT_SUPPORTED, 4 NO_PERMISSION, 5 ALREADY_INITIALIZED, 6 NOT_FOUND,
7 INSUFFICIENT_SIZE, 8 INSUFFICIENT_POWER, 9 DRIVER_NOT_LOADED, 10 TIMEOUT, 11 IRQ_ISSUE, 12 LIBRARY_NOT_FOUND,
13 FUNCTION_NOT_FOUND, 14 CORRUPTED_INFOROM, 15 GPU_IS_LOST, 16 RESET_REQUIRED, 17 OPERATING_SYSTEM,
18 LIB_RM_VERSION_MISMATCH, 19 IN_USE, 20 MEMORY, 21 NO_DATA, 22 VGPU_ECC_NOT_SUPPORTED,
23 INSUFFICIENT_RESOURCES, 24 FREQ_NOT_SUPPORTED, 25 ARGUMENT_VERSION_MISMATCH, 26 DEPRECATED, 27 NOT_READY,
28 GPU_NOT_FOUND, 29 INVALID_STATE, 30 RESET_TYPE_NOT_SUPPORTED, 999 UNKNOWN
"""


class Number(NamedTuple):
    """A number of CUDA or NVML. ``codes`` are findings that explain it, the likeliest first."""

    number: int
    names: tuple[str, ...]
    means: str = ""
    codes: tuple[str, ...] = ()


# What a number means in a container, and the findings that tell its causes apart.
_CUDA_MEANS = {
    1: ("a call was given something that this driver does not take", ("GS315",)),
    2: ("no memory is left: the GPU's is held by other processes, or this process may not have more (ulimit -v, MPS)",
        ("GS706", "GS317", "GS326")),
    3: ("the driver is not initialised: MIG without instances, or a process that forked after its first CUDA call",
        ("GS301", "GS302")),
    34: ("the library is the link-time stub, not the driver", ("GS219",)),
    35: ("the driver is older than the runtime needs, or the runtime found no libcuda at all", ("GS502", "GS501")),
    36: ("the call needs a newer driver than minor-version compatibility covers", ("GS503",)),
    46: ("another process holds the GPU, or its compute mode forbids contexts", ("GS313", "GS323")),
    100: ("the driver has no GPU for this process: none was given, or a mask hides it",
          ("GS306", "GS304", "GS305", "GS115", "GS117", "GS323", "GS325")),
    101: ("the number or UUID names no GPU that is here", ("GS305", "GS314")),
    102: ("the GPU is not licensed: a vGPU without its licence server", ("GS324",)),
    200: ("the code is not a kernel image that this driver reads", ("GS702",)),
    209: ("the program has no code for this GPU's architecture", ("GS701", "GS804")),
    214: ("uncorrectable errors in the GPU's memory", ("GS711", "GS410")),
    218: ("the driver's compiler refuses the PTX: it is damaged, or newer than the driver", ("GS702",)),
    220: ("uncorrectable errors on NVLink", ("GS712",)),
    221: ("the driver's PTX compiler was not mounted", ("GS703",)),
    222: ("the PTX is newer than the driver", ("GS702",)),
    223: ("compiling PTX is switched off (CUDA_DISABLE_PTX_JIT)", ("GS718",)),
    226: ("an error of another process on this GPU was contained; the context is gone", ("GS713",)),
    300: ("the kernel's source is not valid", ()),
    301: ("a file of the driver was not found", ("GS403",)),
    302: ("a library of the driver lacks a symbol: libraries of two driver versions are mixed", ("GS310",)),
    303: ("a library of the driver could not be initialised", ("GS310",)),
    304: ("the operating system refused a call: device rules, seccomp, or a limit of the process", ("GS303", "GS317")),
    700: ("a kernel used an address that is not its own; the context is gone", ("GS713",)),
    701: ("the launch asks for more than a multiprocessor has", ()),
    702: ("a kernel ran longer than the display's watchdog allows", ("GS713",)),
    710: ("a kernel's assert failed", ()),
    714: ("a kernel's stack was damaged; the context is gone", ("GS713",)),
    715: ("a kernel met an illegal instruction; the context is gone", ("GS713",)),
    716: ("a kernel used a misaligned address; the context is gone", ("GS713",)),
    717: ("a kernel used an address of another space; the context is gone", ("GS713",)),
    718: ("a kernel's program counter left its code; the context is gone", ("GS713",)),
    719: ("a kernel failed while it ran; the context is gone", ("GS713",)),
    800: ("the call is not permitted: a restricted GPU, or a container's rules", ("GS303",)),
    801: ("the GPU, the driver or the platform does not support the call", ("GS119",)),
    802: ("the system is not ready: NVSwitch without its Fabric Manager, a fabric that still comes up, or confidential "
          "computing that was not released", ("GS308", "GS321", "GS320")),
    803: ("libcuda and the kernel module do not fit together", ("GS309", "GS310", "GS515")),
    804: ("cuda-compat does not support this GPU", ("GS311", "GS515")),
    805: ("no MPS server answers", ("GS318",)),
    806: ("the MPS server stopped answering", ("GS318",)),
    807: ("the MPS server is not ready yet", ("GS318",)),
    808: ("the MPS server has its most clients already", ("GS319",)),
    809: ("the MPS server has its most connections already", ("GS319",)),
    810: ("the MPS server ended this client: another client of the server failed", ("GS327", "GS318")),
    919: ("the NVLink fabric is not ready", ("GS321", "GS308")),
    999: ("unknown to the driver: /dev/nvidia-uvm, a lost GPU, or lost device rules", ("GS312", "GS105", "GS404")),
}  # fmt: skip
_NVML_MEANS = {
    4: ("this user may not", ("GS401",)),
    8: ("the GPU's power cables are missing or give too little", ("GS413",)),
    9: ("the kernel module is not loaded", ("GS402",)),
    11: ("the kernel gives the GPU no interrupts", ("GS414",)),
    12: ("a library of the driver is missing", ("GS403",)),
    14: ("the GPU's infoROM is damaged", ("GS415",)),
    15: ("the GPU fell off the bus", ("GS404",)),
    16: ("the GPU must be reset", ("GS405",)),
    17: ("the operating system refused a call", ("GS401",)),
    18: ("libnvidia-ml and the kernel module are of two versions", ("GS406",)),
    19: ("another process holds the GPU", ("GS416",)),
    20: ("this process has no memory left", ("GS317",)),
    23: ("the driver has no resources left", ("GS317",)),
    999: ("unknown to the driver: often lost device rules", ("GS407",)),
}  # fmt: skip

# The toolkit libraries' own numbers, from their headers.
_COMMON = {1: "NOT_INITIALIZED", 2: "ALLOC_FAILED", 3: "INVALID_VALUE", 4: "ARCH_MISMATCH", 6: "EXECUTION_FAILED",
           7: "INTERNAL_ERROR"}  # fmt: skip
STATUS = {
    "cublas": {1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
               13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED"},
    "cusolver": _COMMON, "cusparse": {**_COMMON, 10: "NOT_SUPPORTED", 11: "INSUFFICIENT_RESOURCES"},
    "curand": {100: "VERSION_MISMATCH", 101: "NOT_INITIALIZED", 102: "ALLOCATION_FAILED", 201: "LAUNCH_FAILURE",
               203: "INITIALIZATION_FAILED", 204: "ARCH_MISMATCH", 999: "INTERNAL_ERROR"},
    "cufft": {1: "INVALID_PLAN", 2: "ALLOC_FAILED", 5: "INTERNAL_ERROR", 6: "EXEC_FAILED", 7: "SETUP_FAILED"},
    "cudnn": {1001: "NOT_INITIALIZED", 1002: "SUBLIBRARY_VERSION_MISMATCH", 1003: "SERIALIZATION_VERSION_MISMATCH",
              2000: "BAD_PARAM", 3000: "NOT_SUPPORTED", 4000: "INTERNAL_ERROR", 5000: "EXECUTION_FAILED"},
    "nccl": {1: "UNHANDLED_CUDA_ERROR", 2: "SYSTEM_ERROR", 3: "INTERNAL_ERROR", 4: "INVALID_ARGUMENT",
             5: "INVALID_USAGE", 6: "REMOTE_ERROR"},
}  # fmt: skip

# nvmlDeviceGpuRecoveryAction_t: its name, and what to do.
RECOVERY = {
    1: ("GPU reset", "stop the GPU's users, then `nvidia-smi --gpu-reset`"),
    2: ("node reboot", "reboot the node"),
    3: ("drain P2P", "stop every program that uses NVLink or peer-to-peer on the node, then ask again"),
    4: ("drain and reset", "let running work end and give the GPU no new work, then `nvidia-smi --gpu-reset`"),
    5: ("recover IMEX domain", "restart nvidia-imex on the nodes of the NVLink domain"),
    6: ("bus reset", "stop the GPU's users and reset its PCI bus, or reboot the node"),
    7: ("system reboot", "switch the whole machine off and on again"),
}
# nvmlClocksEventReasons; those of the hardware are a fault of cooling or power.
REASONS = {0x2: "clocks set by an application", 0x4: "power limit", 0x8: "hardware slowdown",
           0x10: "synchronised group", 0x20: "software thermal limit", 0x40: "hardware thermal limit",
           0x80: "power brake", 0x100: "clocks of the display"}  # fmt: skip


def _rows(text: str) -> list[list[str]]:
    return [entry.split() for entry in text.replace("\n", " ").split(",")]


def _cuda() -> dict[int, Number]:
    found = {}
    for number, driver, runtime in _rows(_CUDA):
        names = tuple(name for name in (f"CUDA_ERROR_{driver}", f"cudaError{runtime}") if not name.endswith("-"))
        found[int(number)] = Number(int(number), names, *_CUDA_MEANS.get(int(number), ()))
    return found


CUDA = _cuda()
NVML = {int(n): Number(int(n), (f"NVML_ERROR_{name}",), *_NVML_MEANS.get(int(n), ())) for n, name in _rows(_NVML)}


def code_text(number: int, told: str = "") -> str:
    """Return ``100 (CUDA_ERROR_NO_DEVICE)``; ``told`` is the library's own name for a number that the table lacks."""
    name = CUDA[number].names[0] if number in CUDA else told
    return f"{number} ({name})" if name else str(number)


def nvml_text(number: int) -> str:
    """Return ``15 (NVML_ERROR_GPU_IS_LOST)``, or the bare number when it is not known."""
    return f"{number} ({NVML[number].names[0]})" if number in NVML else str(number)


def meaning(number: int, told: str = "") -> str:
    """Return what a number of CUDA means, as far as the table or the library's own name says."""
    entry = CUDA.get(number)
    return (entry.means or entry.names[0]) if entry else told or "a code that is newer than gpu-smoke"


def recovery_text(action: int) -> str:
    """Return the recovery that NVML asks for as evidence, "" for none."""
    return f"NVML asks for: {RECOVERY.get(action, ('an unknown recovery', ''))[0]} ({action})" if action else ""


def clock_reasons(reasons: int) -> str:
    """Return what lowers the clocks, in words (nvmlClocksEventReasons)."""
    named = [name for bit, name in REASONS.items() if reasons & bit]
    return f"{', '.join(named) or 'unknown'} ({reasons:#x})"


def find(text: str) -> list[tuple[str, Number]]:
    """Return the entries for a number, or a name in any spelling, each with the library it belongs to."""
    wanted = text.strip().lower().removeprefix("nvml:").removeprefix("cuda:")
    tables = [("CUDA", CUDA), ("NVML", NVML)]
    if text.strip().lower().startswith(("nvml", "cuda:")):
        tables = [table for table in tables if text.strip().lower().startswith(table[0].lower())]
    return [
        (library, entry)
        for library, table in tables
        for entry in table.values()
        if wanted == str(entry.number) or wanted in {name.lower() for name in entry.names}
    ]
