// Reading of option values: plain numbers with a range, so that NaN, a negative batch or a word
// where a number belongs is an error of usage that names the option.
#pragma once

#include "support/Diagnostic.h"
#include "support/Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// An error of usage about `option` ("--batch").
Diagnostic usageError(llvm::StringRef option);
/// "`what` is not supported in this version".
llvm::Error notSupported(llvm::StringRef what);

/// A finite number above `lowest`, or from it on if `inclusive`. `text` empty: `fallback`.
llvm::Expected<double> realOption(llvm::StringRef option, llvm::StringRef text, double fallback,
                                  double lowest, bool inclusive);
/// A time above 0: a plain number of seconds, or a number with its unit ("200ms", "90s", "10min",
/// "2h"). `text` empty: `fallback`.
llvm::Expected<Seconds> durationOption(llvm::StringRef option, llvm::StringRef text,
                                       Seconds fallback);
/// A whole number in [lowest, highest]. `text` empty: `fallback`.
llvm::Expected<int64_t> wholeOption(llvm::StringRef option, llvm::StringRef text, int64_t fallback,
                                    int64_t lowest, int64_t highest);
/// Index of `text` in `accepted`; the error lists them.
llvm::Expected<size_t> choiceOption(llvm::StringRef option, llvm::StringRef text,
                                    llvm::ArrayRef<const char *> accepted);
/// "NAME=VALUE" at its last '='; neither side is empty.
llvm::Expected<std::pair<std::string, std::string>> assignmentOption(llvm::StringRef option,
                                                                     llvm::StringRef text);

/// "A,B,...": at least `least` parts, none of them empty.
llvm::Expected<std::vector<std::string>> listOption(llvm::StringRef option, llvm::StringRef text,
                                                    size_t least);

/// Largest batch that is accepted anywhere: far above any use, far below overflow.
constexpr int64_t largestBatch = int64_t(1) << 30;

} // namespace heterplan
