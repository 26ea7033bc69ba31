#include "Fuzzing.h"
#include "search/balance/SpeedTrace.h"

using namespace heterplan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::Expected<SpeedTrace> trace = parseSpeedTrace(fuzzing::textOf(data, size), "input");
  if (!trace) {
    fuzzing::expectDiagnostic(trace.takeError());
    return 0;
  }
  for (const std::vector<WorkerState> &states : trace->iterations)
    for (const WorkerState &state : states)
      if (!(state.speed > 0) || state.cpu < 0 || state.cpu > 1 || state.memory < 0 ||
          state.memory > 1)
        fuzzing::fail("read a worker that cannot be");
  llvm::Expected<SpeedTrace> again = parseSpeedTrace(toCsv(*trace), "printed");
  if (!again)
    fuzzing::fail("cannot read what was printed: " + toText(again.takeError()));
  if (!(*again == *trace))
    fuzzing::fail("what was printed reads back as something else");
  return 0;
}
