#include "InfeasibleText.h"

#include "support/JsonWriter.h"

using namespace llvm;

namespace heterplan {

void printInfeasible(raw_ostream &os, const Explanation &explanation) { os << toText(explanation); }

void writeInfeasible(raw_ostream &os, const Explanation &explanation, const SearchedSpace &space) {
  JsonWriter json(os);
  json.object([&] {
    json.attribute("feasible", false);
    json.attribute("proven", explanation.proven);
    json.attribute("searchSpace", space.name);
    json.attributeArray("searchSpaceLimits", [&] {
      for (const std::string &limit : space.leftOut)
        json.value(limit);
    });
    json.attributeArray("conflict", [&] {
      for (const std::string &constraint : explanation.conflict)
        json.value(constraint);
    });
    json.attributeArray("notReached", [&] {
      for (const std::string &question : explanation.notReached)
        json.value(question);
    });
    json.attributeArray("relaxations", [&] {
      for (const Relaxation &relaxation : explanation.relaxations)
        json.object([&] {
          json.attribute("constraint", relaxation.constraint);
          json.attribute("subject", relaxation.subject);
          json.attribute("deviceType", relaxation.deviceType);
          json.attribute("current", relaxation.current);
          json.attribute("needed", relaxation.needed);
          json.attribute("option", relaxation.option);
          json.attribute("value", relaxation.value);
          json.attribute("helps", relaxation.helps);
          json.attribute("smallest", relaxation.smallest);
        });
    });
  });
}

} // namespace heterplan
