#include "Fuzzing.h"
#include "ir/Cluster.h"

using namespace heterplan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::Expected<Cluster> cluster = parseCluster(fuzzing::textOf(data, size), "input");
  if (!cluster) {
    fuzzing::expectDiagnostic(cluster.takeError());
    return 0;
  }
  // What was read is consistent, and its devices can be listed without exhausting memory.
  if (llvm::Error error = cluster->verify())
    fuzzing::fail("read a cluster that its verifier refuses: " + toText(std::move(error)));
  for (size_t type = 0; type < cluster->types.size(); ++type)
    if (devicesOf(*cluster, static_cast<int>(type)).size() !=
        static_cast<size_t>(cluster->deviceCount(static_cast<int>(type))))
      fuzzing::fail("the devices listed are not as many as counted");
  return 0;
}
