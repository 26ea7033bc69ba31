// Operators between the states of tensors in local graphs (ir/sharding): methods of
// heterplan_runtime.shards.Shards.
#include "codegen/Operators.h"

#include "ir/sharding/ShardConversions.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace heterplan {

/// "ShardReduceScatter" is self.shards.reduce_scatter().
Expression emitShard(NodeEmitter &e) {
  std::string method;
  for (char c : e.op().drop_front(StringRef("Shard").size())) {
    if (c >= 'A' && c <= 'Z' && !method.empty())
      method += '_';
    method += toLower(c);
  }
  std::vector<std::string> arguments{e.in(0)};
  if (e.hasAttribute("segments")) {
    arguments.push_back(std::to_string(e.integer("axis", 0)));
    arguments.push_back(python::tuple(e.integers("segments")));
  }
  if (e.integer(halfAttribute, 0))
    arguments.push_back("half=True");
  return python::call("self.shards." + method, arguments);
}

} // namespace heterplan
