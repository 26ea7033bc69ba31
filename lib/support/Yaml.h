// YAML as a tree whose every part knows its line and column, and readers that turn a part into a
// value or a located diagnostic. Files are written by hand by users, so messages name the part
// ("memory of device type 'v100'"), and hostile files are refused before they cost memory or time:
// no anchors, aliases or tags, bounded size and nesting, no key twice.
#pragma once

#include "support/Diagnostic.h"
#include "support/Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <string>
#include <vector>

namespace heterplan {

struct YamlEntry;

struct YamlNode {
  enum class Kind { Null, Scalar, Sequence, Mapping };
  Kind kind = Kind::Null;
  Location location;
  std::string text;               // of a scalar
  std::vector<YamlNode> items;    // of a sequence
  std::vector<YamlEntry> entries; // of a mapping, in file order
};

struct YamlEntry {
  std::string key;
  Location location; // of the key
  YamlNode value;
};

/// Largest YAML text that is read.
constexpr uint64_t largestYaml = 1 << 20;

/// The one document of `text`. Syntax, DuplicateName (a key), FileTooLarge; a file without content
/// is a Syntax error.
llvm::Expected<YamlNode> parseYaml(llvm::StringRef text, llvm::StringRef path,
                                   uint64_t limit = largestYaml);

using YamlReader = std::function<llvm::Error(const YamlNode &)>;

enum class Presence { Required, Optional };

/// One key that a mapping may have, and what is done with its value.
struct YamlField {
  const char *key;
  Presence presence;
  YamlReader read;
};

/// Hands the value of each key of `node` to its field. WrongType if `node` is no mapping,
/// UnknownField (with the accepted keys), MissingField. `what` names the mapping in messages.
llvm::Error readMapping(const YamlNode &node, llvm::StringRef what,
                        llvm::ArrayRef<YamlField> fields);

/// Scalars; `what` names the value in messages. WrongType, OutOfRange or NotASize.
llvm::Error readText(const YamlNode &node, llvm::StringRef what, std::string &result);
llvm::Error readInteger(const YamlNode &node, llvm::StringRef what, int least, int most,
                        int &result);
/// A plain number, not negative; `most` bounds it.
llvm::Error readNumber(const YamlNode &node, llvm::StringRef what, double most, double &result);
/// `true` or `false`.
llvm::Error readFlag(const YamlNode &node, llvm::StringRef what, bool &result);
llvm::Error readBytes(const YamlNode &node, llvm::StringRef what, Bytes &result);
llvm::Error readBandwidth(const YamlNode &node, llvm::StringRef what, BytesPerSecond &result);
/// A time above 0, up to 30 years; minutes and hours are units too.
llvm::Error readDuration(const YamlNode &node, llvm::StringRef what, Seconds &result);
/// A number of CPU cores, in thousandths: sums of them are exact.
llvm::Error readCores(const YamlNode &node, llvm::StringRef what, double &result);
llvm::Error readLatency(const YamlNode &node, llvm::StringRef what, Seconds &result);
llvm::Error readFlopRate(const YamlNode &node, llvm::StringRef what, FlopsPerSecond &result);

} // namespace heterplan
