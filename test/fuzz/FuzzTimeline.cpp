#include "Fuzzing.h"
#include "ir/FileForms.h"

using namespace heterplan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Times are printed in microseconds, so that reading back is exact to rounding only.
  auto forgetTimes = [](Timeline &timeline) {
    for (TimelineEvent &event : timeline.events)
      event.begin = event.end = Seconds();
  };
  fuzzing::roundTrip(fuzzing::textOf(data, size), parseTimeline, forgetTimes);
  return 0;
}
