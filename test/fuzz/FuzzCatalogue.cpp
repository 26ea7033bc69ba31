#include "Fuzzing.h"
#include "cost/Catalogue.h"

using namespace heterplan;

// The same bytes go to all readers of the catalogue.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text = fuzzing::textOf(data, size);
  llvm::Expected<DeviceType> device = parseCatalogueDevice(text, "input");
  if (!device)
    fuzzing::expectDiagnostic(device.takeError());
  else if (!device->rates)
    fuzzing::fail("a catalogued device without rates");
  llvm::Expected<Link> link = parseCatalogueLink(text, "input");
  if (!link)
    fuzzing::expectDiagnostic(link.takeError());
  else if (!(link->bandwidth > BytesPerSecond(0)))
    fuzzing::fail("a link without bandwidth");
  llvm::Expected<ClassMemory> memory = parseClassMemory(text, "input");
  if (!memory)
    fuzzing::expectDiagnostic(memory.takeError());
  else if (memory->overhead.factor < 1)
    fuzzing::fail("ranks take less than their tensors");
  return 0;
}
