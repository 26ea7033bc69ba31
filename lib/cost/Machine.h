// The machine at hand, as a cluster file describes it: what the system says of its cores and
// memory, and the CUDA driver, where there is one, of its GPUs.
#pragma once

#include "cost/Catalogue.h"
#include "support/Units.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace heterplan {

struct GpuFacts {
  std::string name; // as the driver says: "NVIDIA H200"
  Bytes memory{};
  bool operator==(const GpuFacts &) const = default;
};

struct Machine {
  std::string host, cpu;
  int cores = 1;                 // that this process may run on
  std::vector<std::string> numa; // cores of each NUMA node: "0-3,8"; empty: not known
  Bytes memory{};                // of the whole machine
  std::vector<GpuFacts> gpus;    // in the driver's order
  std::string driver;            // of the GPUs: "CUDA 13.0"
};

/// Reads /proc and /sys below `root`, and asks the CUDA driver, which is opened at run time; a
/// machine without it has no GPUs. Facts that the system does not tell stay empty.
Machine readMachine(llvm::StringRef root = "/");

/// The entry of `catalogue` for a GPU of this name and memory; null when none or several fit.
const DeviceType *entryFor(const GpuFacts &gpu, const Catalogue &catalogue);

/// A cluster file of one node: each core a device with its part of the memory, each GPU a device.
/// Links and, of CPUs, rates are those of the catalogue; comments say what is assumed.
std::string clusterFile(const Machine &machine, const Catalogue &catalogue);

} // namespace heterplan
