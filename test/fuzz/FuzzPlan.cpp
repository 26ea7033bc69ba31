#include "Fuzzing.h"
#include "ir/FileForms.h"

using namespace heterplan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzzing::roundTrip(fuzzing::textOf(data, size), parsePlan, [](Plan &) {});
  return 0;
}
