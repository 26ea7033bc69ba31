// Prints docs/experiments/schedule.md, or the sections that are named: the sweeps of PD-ORS's
// publication, loads, Gavel's traces, optima, and the checks of all policies.
#include "Sections.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdio>

using namespace heterplan::bench;

namespace {
constexpr const char *introduction = R"(# Policies of `heterplan schedule`

    make bench-schedule

This page compares the policies of [`heterplan schedule`](../schedule.md) with each other, with the
upper bound and with proven optima. Unless a section says otherwise, a workload has 50 jobs in the
settings of the publication of PD-ORS ([schedule.md](../schedule.md#traces-and-generated-workloads)),
on 20 servers over 60 slots of ten minutes. A server has eight GPUs, 64 cores and 488 GiB. Figures
are medians over %d seeds. "Of the bound" is total utility over `utilityUpperBound`, which no
schedule exceeds. Only the times in the last section depend on the machine.
)";

struct Section {
  const char *name;
  void (*print)();
};

constexpr Section sections[] = {{"loads", printLoads},        {"gavel", printGavelTraces},
                                {"publication", printSweeps}, {"rounding", printRounding},
                                {"price", printPrices},       {"optimum", printOptima},
                                {"rules", printRules},        {"growth", printGrowth}};
} // namespace

int main(int count, char **names) {
  printf(introduction, int(seeds));
  for (const Section &section : sections)
    if (count < 2 || llvm::is_contained(llvm::ArrayRef(names + 1, size_t(count - 1)),
                                        llvm::StringRef(section.name))) {
      fprintf(stderr, "%s\n", section.name);
      section.print();
      fflush(stdout);
    }
  return 0;
}
