#include "search/rl/PretrainedPolicy.h"

#include "support/Files.h"

#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace heterplan {

Expected<Policy> readPolicy(StringRef path, PolicyKind kind) {
  constexpr size_t mostBytes = 16 << 20;
  auto text = readFile(path.str(), mostBytes);
  if (!text)
    return text.takeError();
  return Policy::parse(*text, path, kind);
}

Expected<Policy> pretrainedPolicy(const SearchOptions &options, PolicyKind kind) {
  std::string path = options.policies + "/" + nameOf(kind).str() + ".policy";
  if (options.policies.empty() || !sys::fs::exists(path))
    return Policy(kind, options.seed);
  return readPolicy(path, kind);
}

} // namespace heterplan
