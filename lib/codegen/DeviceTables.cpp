#include "codegen/DeviceTables.h"

#include "codegen/Page.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <vector>

using namespace llvm;
using namespace heterplan::html;

namespace heterplan {
namespace {
/// Devices of one type that have the same stages.
using DeviceUse = std::pair<std::string, std::vector<int>>;

std::map<DeviceUse, int> usesOf(const Plan &plan) {
  std::map<DeviceRef, std::vector<int>> stages;
  for (const Stage &stage : plan.stages)
    for (const Replica &replica : stage.replicas)
      for (const DeviceRef &device : replica.devices)
        if (std::vector<int> &own = stages[device]; own.empty() || own.back() != stage.id)
          own.push_back(stage.id);
  std::map<DeviceUse, int> uses;
  for (const auto &[device, own] : stages)
    ++uses[{device.type, own}];
  return uses;
}

Bytes needOf(const Plan &plan, const std::vector<int> &stages) {
  Bytes need{};
  for (const Stage &stage : plan.stages)
    if (is_contained(stages, stage.id))
      need += stage.memory;
  return need;
}

std::string numbers(const std::vector<int> &stages) {
  std::string text;
  for (int stage : stages)
    text += (text.empty() ? "" : ", ") + std::to_string(stage);
  return text;
}

std::string bar(double share) {
  std::string colour = share > 1 ? "backward" : "forward";
  return "<td><div class=\"bar fill\"><span class=\"" + colour +
         "\" style=\"width:" + fixed(100 * std::min(share, 1.0), 1) + "%\"></span></div></td>";
}
} // namespace

std::string emitMemoryTable(const Plan &plan, const Cluster &cluster) {
  constexpr bool numeric[] = {false, false, true, true, true, false};
  std::string rows;
  for (const auto &[use, count] : usesOf(plan)) {
    const std::string &name = use.first;
    auto type = find_if(cluster.types, [&](const DeviceType &each) {
      return each.name == name || each.stated() == name;
    });
    if (type == cluster.types.end() || !(type->memory.value() > 0))
      continue;
    Bytes need = needOf(plan, use.second);
    double share = double(need.value()) / double(type->memory.value());
    std::string cells = row({std::to_string(count) + " × " + name, numbers(use.second),
                             readable(need), readable(type->memory), fixed(100 * share, 1) + " %"},
                            numeric);
    StringRef open(cells);
    open.consume_back("</tr>\n");
    rows += open.str() + bar(share) + "</tr>\n";
  }
  if (rows.empty())
    return "";
  return "<h2>Memory of devices</h2>\n" +
         wide("<table>\n" +
              row({"devices", "stages", "needed", "available", "share", ""}, numeric, "th") + rows +
              "</table>\n") +
         "<p class=\"note\">Needed is the memory of the fullest device of each stage.</p>\n";
}

std::string emitRankTable(const Program &program) {
  constexpr bool numeric[] = {true, false, true, true, true};
  std::string rows;
  for (const RankProgram &rank : program.ranks) {
    std::string stages, samples;
    for (const ProgramPart &part : rank.parts) {
      stages += (stages.empty() ? "" : ", ") + std::to_string(part.stage);
      samples += (samples.empty() ? "" : ", ") + std::to_string(part.samples.count);
    }
    rows +=
        row({std::to_string(rank.rank),
             rank.device.type + " " + std::to_string(rank.device.index) + " of " + rank.device.node,
             stages, samples, std::to_string(rank.instructions.size())},
            numeric);
  }
  if (rows.empty())
    return "";
  return "<details><summary>" + std::to_string(program.ranks.size()) +
         (program.ranks.size() == 1 ? " rank" : " ranks") +
         "</summary>\n<div class=\"wide\">\n<table>\n" +
         row({"rank", "device", "stage", "samples of a micro-batch", "instructions"}, numeric,
             "th") +
         rows + "</table>\n</div>\n</details>\n";
}

} // namespace heterplan
