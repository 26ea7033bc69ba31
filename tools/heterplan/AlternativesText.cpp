#include "AlternativesText.h"

#include "PlanText.h"
#include "Table.h"

#include "ir/PlanLimits.h"

using namespace llvm;

namespace heterplan {

void printAlternatives(raw_ostream &os, const Plan &chosen,
                       ArrayRef<AlternativePlan> alternatives) {
  if (alternatives.empty())
    return;
  Table table({"alternative", ">objective", ">", ">stages", "plan"});
  for (const AlternativePlan &each : alternatives)
    table.row({titleOf(each, chosen), objectiveText(chosen.objective, each.plan.objectiveValue),
               worseText(each.plan, chosen), std::to_string(each.plan.stages.size()),
               alternativePath(each.kind)});
  os << '\n';
  table.print(os);
}

void explainAlternatives(raw_ostream &os, const Plan &chosen,
                         ArrayRef<AlternativePlan> alternatives, StringRef layer) {
  if (alternatives.empty()) {
    os << "  no alternatives lie beside the plan; heterplan compile --alternatives 2 finds some\n";
    return;
  }
  os << "  what else was found:\n";
  for (const AlternativePlan &each : alternatives) {
    os << "    " << titleOf(each, chosen) << ": "
       << objectiveText(chosen.objective, each.plan.objectiveValue) << ", "
       << worseText(each.plan, chosen);
    if (LayerPlace place = placeOf(each.plan, layer); place.stage)
      os << "; the layer is in stage " << place.stage->id << " of " << each.plan.stages.size()
         << ", on " << devicesText(*place.stage);
    os << '\n';
  }
}

void writeAlternatives(JsonWriter &json, const Plan &chosen, ArrayRef<AlternativePlan> alternatives,
                       StringRef layer) {
  json.attributeArray("alternatives", [&] {
    for (const AlternativePlan &each : alternatives)
      json.object([&] {
        json.attribute("name", infoOf(each).name);
        json.attribute("title", titleOf(each, chosen));
        json.attribute("path", alternativePath(each.kind));
        json.attribute("objectiveValue", each.plan.objectiveValue);
        json.attribute("shareWorse", shareWorse(each.plan, chosen));
        json.attribute("mayChangePlaces", mayChangePlaces(each.plan, chosen));
        json.attribute("iterationSeconds", each.plan.iteration.value());
        json.attribute("costPerMillionSamples", each.plan.costPerMillionSamples.value());
        LayerPlace place = placeOf(each.plan, layer);
        if (!place.stage)
          return;
        json.attribute("stage", int64_t(place.stage->id));
        json.attribute("devices", devicesText(*place.stage));
      });
  });
}

} // namespace heterplan
