#include "ParetoText.h"

#include "PlanText.h"
#include "Table.h"

using namespace llvm;

namespace heterplan {

void printParetoFront(raw_ostream &os, const ParetoPlans &front) {
  Table table(
      {"plan", ">samples/s", std::string(">") + front.spentName(), ">$/h", ">gap", ">stages", ""});
  for (size_t i = 0; i < front.plans.size(); ++i) {
    const Plan &plan = front.plans[i];
    table.row({paretoPath(i), plain(plan.throughput.value()), fixed(front.spentBy(plan), 4),
               fixed(plan.costPerHour.value(), 2),
               plan.optimal ? "optimal" : fixed(100 * plan.gap, 2) + "%",
               std::to_string(plan.stages.size()), i == front.chosen ? "<- in full" : ""});
  }
  table.print(os);
  os << '\n';
}

} // namespace heterplan
