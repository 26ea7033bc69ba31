#include "ir/MemoryOverhead.h"

#include <algorithm>

using namespace llvm;

namespace heterplan {

namespace {
constexpr double largestFactor = 1e3;

Error readFactor(const YamlNode &node, const std::string &what, double &factor) {
  if (Error error = readNumber(node, what, largestFactor, factor))
    return error;
  if (factor >= 1)
    return Error::success();
  return Diagnostic(Diag::OutOfRange, node.location)
             .note({}, "it multiplies bytes of tensors, which are there in any case")
         << what << " is " << factor << "; at least 1 is accepted";
}

Error readOverhead(const YamlNode &node, const std::string &what, MemoryOverhead &overhead) {
  if (node.kind != YamlNode::Kind::Mapping)
    return readBytes(node, what, overhead.constant);
  return readMapping(node, what,
                     {{"constant", Presence::Required,
                       [&](const YamlNode &value) {
                         return readBytes(value, "constant of the " + what, overhead.constant);
                       }},
                      {"factor", Presence::Optional,
                       [&](const YamlNode &value) {
                         return readFactor(value, "factor of the " + what, overhead.factor);
                       }},
                      {"under_way", Presence::Optional,
                       [&](const YamlNode &value) {
                         return readFactor(value, "under_way of the " + what, overhead.underWay);
                       }},
                      {"convolutions", Presence::Optional,
                       [&](const YamlNode &value) {
                         return readNumber(value, "convolutions of the " + what, largestFactor,
                                           overhead.convolutions);
                       }},
                      {"source", Presence::Optional, [&](const YamlNode &value) {
                         return readText(value, "source of the " + what, overhead.source);
                       }}});
}
} // namespace

Bytes MemoryOverhead::room(Bytes memory) const {
  return std::max(Bytes(), (memory - constant) / factor);
}

YamlField memoryOverheadField(const std::string &owner, const std::string &origin,
                              MemoryOverhead &overhead) {
  return {"memory_overhead", Presence::Optional, [=, &overhead](const YamlNode &node) -> Error {
            if (Error error = readOverhead(node, "memory overhead of " + owner, overhead))
              return error;
            if (overhead.source.empty())
              overhead.source = origin;
            return Error::success();
          }};
}

} // namespace heterplan
