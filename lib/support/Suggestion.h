// "did you mean": the accepted word that a mistyped one is closest to.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace heterplan {

/// The word of `accepted` that `word` was probably meant to be: the shortest that contains it, or
/// the one with the fewest changed letters, at most a third of them; "" where there is none.
std::string closest(llvm::StringRef word, llvm::ArrayRef<std::string> accepted);

/// "; did you mean 'conv1'?", or "".
std::string didYouMean(llvm::StringRef word, llvm::ArrayRef<std::string> accepted);

/// The names of `items`, which are to be the accepted words.
template <typename Items> std::vector<std::string> namesOf(const Items &items) {
  std::vector<std::string> names;
  names.reserve(items.size());
  for (const auto &item : items)
    names.push_back(item.name);
  return names;
}

} // namespace heterplan
