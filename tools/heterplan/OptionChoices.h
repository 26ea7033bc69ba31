// The words that an option accepts, for those who read it and for shells that complete it.
#pragma once

#include "Options.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace heterplan {

/// The words that `option` ("--objective") of compile and evaluate accepts, in the order of the
/// enumerators; empty if it accepts any text or none.
std::vector<const char *> choicesOf(llvm::StringRef option);

/// Sets `target` to the enumerator whose place `text` has among `accepted`; leaves it if `text` is
/// empty.
llvm::Error readChoice(llvm::StringRef option, llvm::StringRef text,
                       llvm::ArrayRef<const char *> accepted, auto &target) {
  if (text.empty())
    return llvm::Error::success();
  llvm::Expected<size_t> index = choiceOption(option, text, accepted);
  if (!index)
    return index.takeError();
  target = static_cast<std::remove_reference_t<decltype(target)>>(*index);
  return llvm::Error::success();
}

/// Reads one of the words of choicesOf().
llvm::Error readChoice(llvm::StringRef option, llvm::StringRef text, auto &target) {
  return readChoice(option, text, choicesOf(option), target);
}

} // namespace heterplan
