#include "support/Others.h"

#include "support/Files.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <chrono>
#include <sys/resource.h>
#include <unistd.h>

using namespace llvm;

namespace heterplan {

namespace {
double now() {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

double secondsOf(const timeval &time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); }

double takenByOthers() {
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  return busyTicks(systemText("/proc/stat")) / double(sysconf(_SC_CLK_TCK)) -
         secondsOf(own.ru_utime) - secondsOf(own.ru_stime);
}
} // namespace

double busyTicks(StringRef stat) {
  // cpu user nice system idle iowait irq softirq steal ...
  SmallVector<StringRef, 11> fields;
  SplitString(stat.split('\n').first, fields);
  if (fields.size() < 9 || fields[0] != "cpu")
    return 0;
  double busy = 0;
  for (size_t field : {1, 2, 3, 6, 7, 8}) {
    uint64_t ticks = 0;
    if (fields[field].getAsInteger(10, ticks))
      return 0;
    busy += double(ticks);
  }
  return busy;
}

Others::Others() : begin(now()), taken(takenByOthers()) {}

double Others::cores() const {
  double more = takenByOthers() - taken - 1 / double(sysconf(_SC_CLK_TCK));
  return std::max(0.0, more) / std::max(1e-9, now() - begin);
}

} // namespace heterplan
