// The hardware catalogue: what profiles/devices, profiles/links and profiles/memory say of known
// hardware, each figure with its source. It completes what a cluster file leaves out.
#pragma once

#include "ir/Cluster.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>

namespace heterplan {

/// Memory of ranks beyond their tensors on devices of a class that do not state their own.
struct ClassMemory {
  std::string name; // of the device class
  Location location;
  MemoryOverhead overhead;
  double ofMemory = 0; // part of the device's memory that the constant grows by
  Bytes measured{};    // memory of the device whose `convolutions` are stated; 0: not stated

  /// The overhead of a device with `memory`. Kernels of convolutions take less if there is less.
  MemoryOverhead on(Bytes memory) const {
    MemoryOverhead result = overhead;
    result.constant += memory * ofMemory;
    if (memory < measured)
      result.convolutions *= memory.value() / measured.value();
    return result;
  }
};

class Catalogue {
public:
  /// Reads devices/*.yaml, links/*.yaml and, where it is there, memory/*.yaml of `folder`. Errors
  /// carry file, line and column.
  static llvm::Expected<Catalogue> load(llvm::StringRef folder);

  /// Fills in rates, kind, memory, its overhead and price of the device types that name an entry,
  /// and every link that is only a name; what the cluster file states itself wins. NoCatalogueEntry
  /// and UnknownLink (at the name, with the nearest known names).
  llvm::Error resolve(Cluster &cluster) const;

  /// The entry called `name`, or null. A device's location is the file, and its `rates` is set.
  const DeviceType *device(llvm::StringRef name) const;
  const Link *link(llvm::StringRef name) const;
  /// In order of names.
  const std::map<std::string, DeviceType> &devices() const { return deviceEntries; }
  const std::map<std::string, Link> &links() const { return linkEntries; }

private:
  /// Completes a type that has no entry: the vendor by its name, and the overhead of the class on a
  /// GPU with rates.
  void completeByHand(DeviceType &type) const;

  std::map<std::string, DeviceType> deviceEntries;
  std::map<std::string, Link> linkEntries;
  std::map<std::string, ClassMemory> memoryEntries; // by device class
};

/// One entry from its text; `path` is for messages.
llvm::Expected<DeviceType> parseCatalogueDevice(llvm::StringRef text, llvm::StringRef path);
llvm::Expected<Link> parseCatalogueLink(llvm::StringRef text, llvm::StringRef path);
llvm::Expected<ClassMemory> parseClassMemory(llvm::StringRef text, llvm::StringRef path);

/// The folder that holds devices/, links/ and clusters/: $HETERPLAN_PROFILES if set, else
/// ../share/heterplan/profiles (installed) or ../../profiles (source tree) beside the executable's
/// folder. CannotRead, with all that was tried, when there is none.
llvm::Expected<std::string> findProfiles(llvm::StringRef executablePath);

} // namespace heterplan
