// Text of Python programs: literals, identifiers, tuples, long statements broken into lines. All
// names that come from a model pass through here, so that none of them can become code.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace heterplan::python {

/// A string literal in double quotes. UTF-8 stays; control characters and stray bytes are escaped.
std::string quote(llvm::StringRef text);
/// `text` fit for a comment or docstring: one line, no quotes or backslashes, at most 120
/// characters.
std::string comment(llvm::StringRef text);
/// A number that reads back as the same double: 0.5, 1e-05, float("inf"). Negative ones have
/// parentheses, so that they can stand before any operator.
std::string literal(double value);
/// The literal of a float32: the shortest decimals that round to it.
std::string literal(float value);
std::string literal(int64_t value);
/// (), (a,), (a, b)
std::string tuple(const std::vector<std::string> &items);
std::string tuple(llvm::ArrayRef<int64_t> items);
/// One number where all are equal, a tuple otherwise: what stride=, padding= and the like take.
std::string compactTuple(llvm::ArrayRef<int64_t> items);
/// f(a, b, key=c)
std::string call(llvm::StringRef function, const std::vector<std::string> &arguments);
std::string join(llvm::ArrayRef<std::string> items, llvm::StringRef separator = ", ");

/// "torch.float32"
std::string torchType(DataType type);
/// The size of `dim` for a batch called `batch`: "128", "n", "2 * n", "n + 1".
std::string dimension(Dim dim, llvm::StringRef batch);
/// "N x 64 x 112 x 112", or "scalar".
std::string shapeText(llvm::ArrayRef<Dim> shape);
/// The comment on `tensor`: its shape, "at most" where that is a bound, or its container.
std::string remark(const GraphTensor &tensor);

/// Lines of `statement` indented by `indent`, none longer than 100 columns where a bracket allows
/// it; `remark` follows as a comment, or stands above when there is no room.
std::string statement(int indent, llvm::StringRef statement, llvm::StringRef remark = "");

/// The comment `text` and `end` in one line of at most 100 columns, for which `text` is clipped.
std::string commentLine(int indent, llvm::StringRef text, llvm::StringRef end = "");

/// Gives out identifiers: readable, valid, none twice, none reserved.
class Identifiers {
public:
  Identifiers();
  /// An identifier made from an ONNX name.
  std::string make(llvm::StringRef name);

private:
  llvm::StringSet<> used;
};

} // namespace heterplan::python
