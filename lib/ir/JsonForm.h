// Common parts of all file forms: text to a checked Protobuf message and back, names of
// enumerators, and places of errors. Private to lib/ir; only here does the IR meet Protobuf.
#pragma once

#include "support/Diagnostic.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace google::protobuf {
class Message;
}

namespace heterplan {

/// Largest file that is read.
constexpr uint64_t largestJson = uint64_t(1) << 28;

/// A JSON text and where it came from.
struct JsonSource {
  llvm::StringRef text;
  llvm::StringRef path;

  Location at(const llvm::Twine &element) const;
  /// `error` of a verifier, whose places name an element only, with file, line and column.
  llvm::Error located(llvm::Error error) const;
};

/// Parses `source` into `message`: grammar, version (at `versionElement`), types, unknown fields
/// (skipped when the file's minor version is newer), and the options of heterplan.proto.
/// A file without a version is taken for 1.0 if `versionOptional`.
llvm::Error parseMessage(const JsonSource &source, google::protobuf::Message &message,
                         llvm::StringRef versionElement, bool versionOptional);

/// Whether fields without presence are printed that have their default value, empty lists among
/// them.
enum class Defaults { Printed, LeftOut };

/// The JSON text of `message`, with a final newline. Deterministic; bytes of strings that are not
/// UTF-8 become '?'. Doubles are printed so that they read back as they were.
std::string printMessage(google::protobuf::Message &message, Defaults defaults = Defaults::Printed);

/// Turns names into enumerators and remembers the first that is unknown, so that mapping a message
/// is straight-line code: map all, then take().
class NameReader {
public:
  explicit NameReader(const JsonSource &source) : source(source) {}

  /// The enumerator of `Enum` (0..count-1) whose nameOf() is `name`; the first one and an error
  /// when there is none.
  template <typename Enum> Enum named(llvm::StringRef name, int count, const llvm::Twine &element) {
    std::string accepted;
    for (int i = 0; i < count; ++i) {
      if (name == nameOf(static_cast<Enum>(i)))
        return static_cast<Enum>(i);
      accepted += (i ? ", " : "") + std::string(nameOf(static_cast<Enum>(i)));
    }
    refuse(name, accepted, element);
    return Enum{};
  }

  /// The remembered error, or success.
  llvm::Error take();

private:
  void refuse(llvm::StringRef name, const std::string &accepted, const llvm::Twine &element);

  const JsonSource &source;
  std::optional<Diagnostic> first;
};

} // namespace heterplan
