// Refusals of what is not supported with layers that several devices share (tensor parallelism).
#pragma once

#include "llvm/Support/Error.h"

namespace heterplan {

enum class NotWithShards {
#define HETERPLAN_NOT_WITH_SHARDS(enumerator, what) enumerator,
#include "ir/sharding/NotWithShards.def"
};

/// The error that `what` is not supported with such layers. NotSupported.
llvm::Error notWithShards(NotWithShards what);

} // namespace heterplan
