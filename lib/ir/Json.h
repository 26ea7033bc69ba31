// The grammar of JSON, and where in a text a value lies. Protobuf's parser is lenient and names
// places loosely; this one runs before it, is strict, and gives line and column.
#pragma once

#include "support/Diagnostic.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace heterplan {

/// Fails with Syntax (located) unless `text` is one JSON value: RFC 8259, valid UTF-8, nested at
/// most 64 deep; with DuplicateName when an object has a key twice ("a_b" and "aB" are one key).
llvm::Error checkJson(llvm::StringRef text, llvm::StringRef path);

/// Place in checked `text` of what `element` names ("layers[2].forwardFlops"), or of the innermost
/// value around it that is there.
Location locateInJson(llvm::StringRef text, llvm::StringRef path, llvm::StringRef element);

/// The string at `element` as it is written (escapes kept); none if there is no string.
std::optional<std::string> stringInJson(llvm::StringRef text, llvm::StringRef element);

/// Which numbers of a text are zero: tells a zero that was written from a field that is not there,
/// which Protobuf does not.
class JsonZeros {
public:
  /// Scans `text`, which has been checked.
  explicit JsonZeros(llvm::StringRef text);
  bool contain(llvm::StringRef element) const;

private:
  llvm::StringSet<> elements;
};

} // namespace heterplan
