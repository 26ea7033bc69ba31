#include "ir/sharding/NotWithShards.h"

#include "support/Diagnostic.h"

using namespace llvm;

namespace heterplan {

Error notWithShards(NotWithShards what) {
  constexpr const char *texts[] = {
#define HETERPLAN_NOT_WITH_SHARDS(enumerator, what) what,
#include "ir/sharding/NotWithShards.def"
  };
  return Diagnostic(Diag::NotSupported, {"", 0, 0, "heterplan"})
         << texts[static_cast<int>(what)]
         << " is not supported with layers that several devices share (--tensor-parallel)";
}

} // namespace heterplan
