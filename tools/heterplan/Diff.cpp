// heterplan diff: differences between two plans, in time, money and memory.
#include "Commands.h"
#include "Inputs.h"
#include "PlanText.h"
#include "Table.h"

#include "ir/FileForms.h"
#include "support/JsonWriter.h"
#include "support/Text.h"

#include "llvm/ADT/StringMap.h"

#include <CLI/CLI.hpp>

using namespace heterplan;
using namespace llvm;

namespace {

struct DiffOptions {
  std::string before, after;
  bool json = false;
};

/// A figure that both plans have.
struct Figure {
  const char *name;
  const char *unit;
  double before, after;
};

/// A layer that the plans put on different stages or devices.
struct Move {
  std::string layer, before, after;
};

Bytes largestMemory(const Plan &plan) {
  Bytes largest{};
  for (const Stage &stage : plan.stages)
    largest = std::max(largest, stage.memory);
  return largest;
}

std::vector<Figure> figuresOf(const Plan &a, const Plan &b) {
  return {
      {"iterationSeconds", "s", a.iteration.value(), b.iteration.value()},
      {"expectedSeconds", "s", a.expectedIteration().value(), b.expectedIteration().value()},
      {"throughput", "samples/s", a.throughput.value(), b.throughput.value()},
      {"costPerHour", "$/h", a.costPerHour.value(), b.costPerHour.value()},
      {"costPerMillionSamples", "$", a.costPerMillionSamples.value(),
       b.costPerMillionSamples.value()},
      {"memoryBytes", "bytes", largestMemory(a).value(), largestMemory(b).value()},
      {"globalBatch", "samples", double(a.globalBatch.value()), double(b.globalBatch.value())},
      {"microBatches", "", double(a.microBatches), double(b.microBatches)},
      {"stages", "", double(a.stages.size()), double(b.stages.size())},
      {"devices", "", double(a.deviceCount()), double(b.deviceCount())},
  };
}

StringMap<std::string> placesOf(const Plan &plan) {
  StringMap<std::string> places;
  for (const Stage &stage : plan.stages)
    for (const std::string &layer : stage.layers)
      places[layer] = "stage " + std::to_string(stage.id) + ", " + devicesText(stage);
  return places;
}

/// In the order of the first plan's layers, then those that only the second has.
std::vector<Move> movesOf(const Plan &a, const Plan &b) {
  std::vector<Move> moves;
  StringMap<std::string> before = placesOf(a), after = placesOf(b);
  for (const Stage &stage : a.stages)
    for (const std::string &layer : stage.layers) {
      std::string place = after.count(layer) ? after[layer] : "absent";
      if (place != before[layer])
        moves.push_back({layer, before[layer], place});
    }
  for (const Stage &stage : b.stages)
    for (const std::string &layer : stage.layers)
      if (!before.count(layer))
        moves.push_back({layer, "absent", after[layer]});
  return moves;
}

std::string figureText(const Figure &figure, double value) {
  if (StringRef(figure.unit) == "s")
    return readable(Seconds(value));
  if (StringRef(figure.unit) == "bytes")
    return readable(Bytes(value));
  return plain(value) + (*figure.unit ? " " : "") + figure.unit;
}

std::string changeText(const Figure &figure) {
  if (figure.before == figure.after)
    return "same";
  if (figure.before == 0)
    return "new";
  double change = 100 * (figure.after / figure.before - 1);
  return (change >= 0 ? "+" : "") + fixed(change, 1) + "%";
}

/// One row for each run of layers that moved alike.
void printMoves(ArrayRef<Move> moves) {
  if (moves.empty()) {
    outs() << "\nevery layer is on the same stage and device type\n";
    return;
  }
  Table table({"layers", "A", "B"});
  while (!moves.empty()) {
    const Move &first = moves.front();
    size_t alike = std::find_if(moves.begin(), moves.end(),
                                [&](const Move &move) {
                                  return move.before != first.before || move.after != first.after;
                                }) -
                   moves.begin();
    std::string layers = shortened(first.layer, 28);
    if (alike > 1)
      layers += " .. " + shortened(moves[alike - 1].layer, 28) + " (" + std::to_string(alike) + ")";
    table.row({layers, first.before, first.after});
    moves = moves.drop_front(alike);
  }
  outs() << '\n';
  table.print(outs());
}

void printText(const Plan &a, const Plan &b) {
  if (a == b)
    outs() << "the plans are the same\n";
  if (a.modelFingerprint != b.modelFingerprint)
    outs() << "they were made for different models: " << a.model << " and " << b.model << '\n';
  if (a.clusterFingerprint != b.clusterFingerprint)
    outs() << "they were made for different clusters: " << a.cluster << " and " << b.cluster
           << '\n';
  Table table({"figure", ">A", ">B", ">change"});
  for (const Figure &figure : figuresOf(a, b))
    table.row({figure.name, figureText(figure, figure.before), figureText(figure, figure.after),
               changeText(figure)});
  table.print(outs());
  printMoves(movesOf(a, b));
}

void printJson(const Plan &a, const Plan &b) {
  JsonWriter json(outs());
  json.object([&] {
    json.attribute("identical", a == b);
    json.attribute("sameModel", a.modelFingerprint == b.modelFingerprint);
    json.attribute("sameCluster", a.clusterFingerprint == b.clusterFingerprint);
    json.attributeArray("figures", [&] {
      for (const Figure &figure : figuresOf(a, b))
        json.object([&] {
          json.attribute("name", figure.name);
          json.attribute("unit", figure.unit);
          json.attribute("before", figure.before);
          json.attribute("after", figure.after);
        });
    });
    json.attributeArray("layers", [&] {
      for (const Move &move : movesOf(a, b))
        json.object([&] {
          json.attribute("name", move.layer);
          json.attribute("before", move.before);
          json.attribute("after", move.after);
        });
    });
  });
}

Expected<ExitStatus> diff(const DiffOptions &options) {
  Expected<Plan> before = readPlanAt(options.before);
  if (!before)
    return before.takeError();
  Expected<Plan> after = readPlanAt(options.after);
  if (!after)
    return after.takeError();
  (options.json ? printJson : printText)(*before, *after);
  return exitDone;
}

} // namespace

void heterplan::addDiff(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("diff", "compare plan B with plan A");
  auto options = std::make_shared<DiffOptions>();
  addArgument(*command, "PLAN_A", options->before, "plan.json or the directory that holds it");
  addArgument(*command, "PLAN_B", options->after, "plan.json or the directory that holds it");
  command->add_flag("--json", options->json, "print the changes as JSON");
  command->callback([options, &action] { action = [options] { return diff(*options); }; });
}
