"""The properties that differ between classes of devices: one Python class for each line of
lib/ir/DeviceClasses.def. All other code asks the class of a device and never its name."""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
ADDITIONS = 10_000
LARGEST_ROTATION = 128 << 20
MOST_WORKERS = 4


@dataclass(frozen=True)
class Description:
    """A description of a device, for profiles."""

    device: str
    driver: str
    clocks: str
    threads: int


class Cpu:
    name, torch_device, backend = "cpu", "cpu", "gloo"
    reads_pinned_memory = False  # of the host, by itself
    runs_behind = False  # kernels are enqueued and run later

    def count(self) -> int:
        return 1

    def names(self) -> list[str]:
        """Names of the devices that this process may use, by index."""
        return [platform.machine()]

    def device(self, index: int) -> torch.device:
        """Made current."""
        del index
        return torch.device("cpu")

    def place(self, device: torch.device) -> int | None:
        """Which of the host's devices it is; none where ranks share what there is."""
        del device
        return None

    def synchronize(self, device: torch.device) -> None:
        """Waits until what was started on it has ended."""

    def restart_peak(self, device: torch.device) -> None:
        """Forgets the peaks of memory so far."""
        del device
        try:
            _CLEAR.write_text("5", encoding="ascii")
        except OSError:
            pass  # then they count

    def used_memory(self, device: torch.device) -> int:
        """Memory in use that counts towards the peak: the resident pages of this process without
        those of files."""
        del device
        return _status("VmRSS") - _status("RssFile")

    def peak_memory(self, device: torch.device) -> int:
        del device
        return _status("VmHWM") - _status("RssFile")

    def resident_peak(self, device: torch.device) -> int:
        """Peak resident memory of the process, the pages of files included."""
        del device
        return _status("VmHWM")

    def free_memory(self, device: torch.device) -> int | None:
        """Free memory of a device that belongs to one rank; None if ranks share the memory."""
        del device
        return None

    def spare_workers(self) -> int:
        """Processes of a rank that may make samples without being in its way."""
        return 0

    def available_memory(self, device: torch.device) -> int:
        """Bytes that are not in use, of the host where ranks share it."""
        del device
        try:
            for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        except (OSError, ValueError):
            pass
        return 4 << 30

    def cache_bytes(self, device: torch.device) -> int:
        """Bytes of cache that a pass over a model evicts: the largest cache of the first core, up
        to a limit. A cache that many cores or several guests of a host share does not belong to one
        layer."""
        del device
        largest = 0
        for size in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
            text = size.read_text(encoding="utf-8").strip()
            unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
            largest = max(largest, int(text.rstrip("KM")) * unit)
        return min(largest or LARGEST_ROTATION, LARGEST_ROTATION)

    def has_bf16(self, device: torch.device) -> bool:
        """Whether it multiplies in bf16, rather than PyTorch doing so by other means; true where nobody says."""
        del device
        flags = _cpu_field("flags").split()
        return not flags or not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)

    def computes_bf16_in_fp16(self, device: torch.device) -> bool:
        """Whether ranks compute a plan in bf16 in fp16 instead; here PyTorch has other means."""
        del device
        return False

    def reference_kernel(self, device: torch.device) -> float:
        """Seconds of a fixed piece of work: of the interpreter for additions, about a third of a
        millisecond."""
        del device
        begin, total = time.perf_counter(), 0
        for number in range(ADDITIONS):
            total += number
        return time.perf_counter() - begin

    def describe(self, device: torch.device, threads: int) -> Description:
        del device
        return Description(
            _cpu_field("model name") or platform.processor() or platform.machine(),
            f"{platform.system()} {platform.release()}",
            _clocks(),
            threads,
        )


class Gpu:
    name, torch_device, backend = "gpu", "cuda", "nccl"
    reads_pinned_memory = True
    runs_behind = True

    def count(self) -> int:
        return torch.cuda.device_count() if torch.cuda.is_available() else 0

    def names(self) -> list[str]:
        """CUDA_VISIBLE_DEVICES says which."""
        return [torch.cuda.get_device_name(index) for index in range(self.count())]

    def device(self, index: int) -> torch.device:
        torch.cuda.set_device(index)
        return torch.device("cuda", index)

    def place(self, device: torch.device) -> int | None:
        return device.index

    def synchronize(self, device: torch.device) -> None:
        torch.cuda.synchronize(device)

    def restart_peak(self, device: torch.device) -> None:
        torch.cuda.reset_peak_memory_stats(device)

    def used_memory(self, device: torch.device) -> int:
        """None: the allocator counts what it handed out."""
        del device
        return 0

    def peak_memory(self, device: torch.device) -> int:
        return torch.cuda.max_memory_allocated(device)

    def resident_peak(self, device: torch.device) -> int:
        """The context included. The allocator gives nothing back, so that what is taken is the peak."""
        free, total = torch.cuda.mem_get_info(device)
        return int(total - free)

    def free_memory(self, device: torch.device) -> int | None:
        return int(torch.cuda.mem_get_info(device)[0])

    def spare_workers(self) -> int:
        """The rank's part of the host's cores, without the core that drives the GPU."""
        cores = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        return min(MOST_WORKERS, cores - 1)

    def available_memory(self, device: torch.device) -> int:
        return int(torch.cuda.mem_get_info(device)[0])

    def cache_bytes(self, device: torch.device) -> int:
        """Four times the L2 cache."""
        return max(LARGEST_ROTATION, 4 * int(torch.cuda.get_device_properties(device).L2_cache_size))

    def has_bf16(self, device: torch.device) -> bool:
        del device
        return torch.cuda.is_bf16_supported(including_emulation=False)

    def computes_bf16_in_fp16(self, device: torch.device) -> bool:
        return not self.has_bf16(device)

    def reference_kernel(self, device: torch.device) -> float:
        """Not known: the interpreter tells nothing of a GPU."""
        del device
        return 0.0

    def describe(self, device: torch.device, threads: int) -> Description:
        del threads
        properties = torch.cuda.get_device_properties(device)
        driver = f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
        return Description(properties.name, driver, "", 0)


DeviceClass = Cpu | Gpu
CPU = Cpu()
DEVICE_CLASSES: tuple[DeviceClass, ...] = (CPU, Gpu())


def class_named(name: str) -> DeviceClass:
    """By its name in files, or that of PyTorch's device ("gpu", "cuda:1")."""
    kind = name.split(":")[0]
    for device_class in DEVICE_CLASSES:
        if kind in (device_class.name, device_class.torch_device):
            return device_class
    known = ", ".join(device_class.name for device_class in DEVICE_CLASSES)
    raise ValueError(f"no class of devices is called '{name}'; known are {known}")


def class_of(device: torch.device) -> DeviceClass:
    return class_named(device.type)


def local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def _status(name: str) -> int:
    """A line of /proc/self/status; elsewhere the peak, which is all that is known."""
    try:
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cpu_field(name: str) -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return ""


def cpu_name() -> str:
    """The model of the CPU, as it calls itself; "" if the system does not say."""
    return _cpu_field("model name")


def _clocks() -> str:
    megahertz = _cpu_field("cpu MHz")
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    parts = [f"{float(megahertz):.0f} MHz"] if megahertz else []
    if governor.exists():
        parts.append("governor " + governor.read_text(encoding="utf-8").strip())
    return ", ".join(parts)
