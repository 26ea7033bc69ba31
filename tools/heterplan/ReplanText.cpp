#include "ReplanText.h"
#include "PlanText.h"
#include "Table.h"

#include "support/JsonWriter.h"
#include "support/Text.h"

#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace heterplan {

namespace {
const char *unitOf(Objective objective) {
  return objective == Objective::Cost            ? "$"
         : objective == Objective::DeviceSeconds ? "device-seconds"
                                                 : "s";
}
} // namespace

void printReplan(const Plan &before, const ReplanCandidates &found, int64_t horizon) {
  const ReplanCandidate &chosen = found.all[found.chosen];
  outs() << "\nbefore         " << readable(before.expectedIteration()) << " a step on "
         << before.deviceCount() << " devices\n";
  Table table({"candidate", ">step", ">moves", ">time to move",
               ">" + std::to_string(horizon) + " steps (" + unitOf(chosen.plan.objective) + ")",
               ""});
  for (const ReplanCandidate &each : found.all)
    table.row({each.name, readable(each.plan.expectedIteration()), readable(each.moves.moved),
               readable(each.moving), plain(totalOf(each, horizon)),
               &each == &chosen ? "chosen" : ""});
  table.print(outs());
  outs() << "\nstate          " << readable(chosen.moves.moved) << " of "
         << readable(chosen.moves.held) << " move";
  for (const NodeMove &node : chosen.moves.nodes)
    outs() << (&node == &chosen.moves.nodes.front() ? ": " : ", ") << readable(node.bytes) << " to "
           << node.node;
  outs() << "\npays           ";
  int64_t steps = paysAfter(found);
  if (!found.find("old stages"))
    outs() << "at once: the old stages cannot go on\n";
  else if (steps == 0)
    outs() << "at once: moving costs no more than with the old stages\n";
  else if (steps < 0)
    outs() << "never: a step is worth no less with the old stages\n";
  else
    outs() << "after " << steps << " steps\n";
}

void printReplanJson(const ReplanCandidates &found, int64_t horizon) {
  const ReplanCandidate &chosen = found.all[found.chosen];
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("chosen", chosen.name);
    json.attribute("horizonSteps", horizon);
    json.attribute("movedBytes", chosen.moves.moved.value());
    json.attribute("heldBytes", chosen.moves.held.value());
    json.attribute("moveSeconds", chosen.moving.value());
    json.attribute("paysAfterSteps", paysAfter(found));
    json.attributeArray("nodes", [&] {
      for (const NodeMove &node : chosen.moves.nodes)
        json.object([&] {
          json.attribute("node", node.node);
          json.attribute("movedBytes", node.bytes.value());
        });
    });
    json.attributeArray("candidates", [&] {
      for (const ReplanCandidate &each : found.all)
        json.object([&] {
          json.attribute("name", each.name);
          json.attribute("iterationSeconds", each.plan.iteration.value());
          json.attribute("expectedSeconds", each.plan.expectedIteration().value());
          json.attribute("movedBytes", each.moves.moved.value());
          json.attribute("moveSeconds", each.moving.value());
          json.attribute("total", totalOf(each, horizon));
        });
    });
  });
  outs() << '\n';
}

} // namespace heterplan
