#include "support/Suggestion.h"

using namespace llvm;

namespace heterplan {

std::string closest(StringRef word, ArrayRef<std::string> accepted) {
  constexpr size_t leastContained = 2; // letters; fewer are in everything
  const std::string *best = nullptr;
  unsigned fewest = unsigned(word.size()) / 3 + 1;
  for (const std::string &candidate : accepted) {
    bool contains = word.size() >= leastContained &&
                    StringRef(candidate).find_insensitive(word) != StringRef::npos;
    if (contains && (!best || candidate.size() < best->size()))
      best = &candidate;
  }
  if (best)
    return *best;
  for (const std::string &candidate : accepted) {
    unsigned changed = StringRef(candidate).edit_distance(word, /*AllowReplacements=*/true, fewest);
    if (changed >= fewest)
      continue;
    fewest = changed;
    best = &candidate;
  }
  return best ? *best : "";
}

std::string didYouMean(StringRef word, ArrayRef<std::string> accepted) {
  std::string meant = closest(word, accepted);
  return meant.empty() ? "" : "; did you mean '" + meant + "'?";
}

} // namespace heterplan
