// The classes of devices, from DeviceClasses.def: what differs between them beyond their figures.
#pragma once

#include "support/Units.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace heterplan {

enum class DeviceClass : int {
#define HETERPLAN_DEVICE_CLASS(enumerator, name, torch, backend, launch) enumerator,
#include "ir/DeviceClasses.def"
};

const char *nameOf(DeviceClass deviceClass);        // "cpu" | "gpu"
const char *torchDeviceOf(DeviceClass deviceClass); // "cpu" | "cuda"
/// Until a kernel runs: its launch and the framework around it.
Seconds launchOverheadOf(DeviceClass deviceClass);

std::optional<DeviceClass> deviceClassOf(llvm::StringRef name);
/// The class of a PyTorch device: "cuda:0" is Gpu.
std::optional<DeviceClass> deviceClassOfTorch(llvm::StringRef device);
/// "cpu, gpu", for messages.
std::string deviceClassNames();

} // namespace heterplan
