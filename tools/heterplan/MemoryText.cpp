#include "MemoryText.h"

#include "Table.h"

#include "llvm/ADT/StringExtras.h"

#include <vector>

namespace heterplan {

namespace {
std::string overheadText(const MemoryOverhead &overhead) {
  if (!overhead)
    return "tensors only; nobody states what ranks take besides";
  return readable(overhead.constant) + " + " + fixed(overhead.factor, 2) + " × tensors + " +
         fixed(overhead.underWay, 2) + " × workspace" +
         (overhead.convolutions > 0
              ? " + " + fixed(overhead.convolutions, 2) + " × operands of a convolution in fp32"
              : "") +
         " (" + overhead.source + ")";
}
} // namespace

std::string memoryText(const Plan &plan) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < plan.deviceMemory.size(); ++i) {
    const DeviceMemory &memory = plan.deviceMemory[i];
    bool goesOn =
        i + 1 < plan.deviceMemory.size() && plan.deviceMemory[i + 1].overhead == memory.overhead;
    bool begins = i == 0 || !(plan.deviceMemory[i - 1].overhead == memory.overhead);
    if (begins)
      parts.emplace_back();
    parts.back() += memory.type + (goesOn ? ", " : ": " + overheadText(memory.overhead));
  }
  if (plan.memoryHeadroom.value_or(0) > 0)
    parts.push_back(percent(*plan.memoryHeadroom) + " kept free");
  return llvm::join(parts, "; ");
}

} // namespace heterplan
