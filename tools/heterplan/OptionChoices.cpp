#include "OptionChoices.h"

#include "search/Search.h"

#include <iterator>

using namespace llvm;

namespace heterplan {

namespace {
/// The accepted words of an option. Options with a table of their own are not listed here.
struct Choices {
  const char *option;
  std::vector<const char *> accepted;
};

std::vector<const char *> namesOf(const auto &infos) {
  std::vector<const char *> names;
  for (const auto &info : infos)
    names.push_back(info.name);
  return names;
}
} // namespace

std::vector<const char *> choicesOf(StringRef option) {
  if (option == "--strategy")
    return namesOf(strategies());
  if (option == "--iteration-model")
    return namesOf(iterationModels());
  static const Choices all[] = {
      {"--objective", {"throughput", "cost", "gpu-seconds"}},
      {"--schedule", {"auto", "data-parallel", "pipeline", "burst"}},
      {"--widths", {"powers", "any"}},
      {"--optimizer", {"sgd", "momentum", "adam"}},
      {"--optimizer-kernels", {"fused", "for-loop"}},
      {"--recompute", {"auto", "never", "always"}},
      {"--sequence-parallel", {"auto", "never"}},
      {"--shard-state", {"none", "optimizer", "gradients", "parameters", "auto"}},
      {"--precision", {"fp32", "tf32", "bf16", "fp16"}},
      {"--memory-format", {"channels-first", "channels-last", "auto"}},
      {"--batch-norm", {"synchronised", "local"}},
      {"--layer-order", {"auto", "given", "narrow"}},
      {"--rounding", {"exact", "ceiling", "floor-repair", "randomised"}},
  };
  for (const Choices &each : all)
    if (option == each.option)
      return each.accepted;
  return {};
}

} // namespace heterplan
