// The policies that ship with the tool, in the folder SearchOptions::policies.
#pragma once

#include "search/Search.h"
#include "search/rl/Policy.h"

namespace heterplan {

/// The policy in the file `path`. Fails if it cannot be read, is damaged, or is of another kind.
llvm::Expected<Policy> readPolicy(llvm::StringRef path, PolicyKind kind);
/// The pretrained policy of `kind`; an untrained one if there is none.
llvm::Expected<Policy> pretrainedPolicy(const SearchOptions &options, PolicyKind kind);

} // namespace heterplan
