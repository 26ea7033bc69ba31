#include "ir/DeviceClass.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace heterplan {

namespace {
struct Info {
  const char *name, *torch;
  double launchMicroseconds;
};

constexpr Info infos[] = {
#define HETERPLAN_DEVICE_CLASS(enumerator, name, torch, backend, launch) {name, torch, launch},
#include "ir/DeviceClasses.def"
};

const Info &infoOf(DeviceClass deviceClass) { return infos[static_cast<int>(deviceClass)]; }

std::optional<DeviceClass> findClass(function_ref<bool(const Info &)> matches) {
  const Info *found = find_if(infos, matches);
  if (found == std::end(infos))
    return std::nullopt;
  return static_cast<DeviceClass>(found - infos);
}
} // namespace

const char *nameOf(DeviceClass deviceClass) { return infoOf(deviceClass).name; }
const char *torchDeviceOf(DeviceClass deviceClass) { return infoOf(deviceClass).torch; }

Seconds launchOverheadOf(DeviceClass deviceClass) {
  return Seconds(infoOf(deviceClass).launchMicroseconds * 1e-6);
}

std::optional<DeviceClass> deviceClassOf(StringRef name) {
  return findClass([&](const Info &info) { return name == info.name; });
}

std::optional<DeviceClass> deviceClassOfTorch(StringRef device) {
  return findClass([&](const Info &info) { return device.split(':').first == info.torch; });
}

std::string deviceClassNames() {
  std::string names;
  for (const Info &info : infos)
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

} // namespace heterplan
