// Whether a text has the outline of a Python program. The emitters are right by construction; this
// looks at what they wrote once more before anybody gets it, at a fraction of the cost of writing.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace heterplan::python {

/// The first syntax error of `text`, with the number of its line; nothing if strings and
/// brackets close, each logical line is indented as the one before allows, neither nests deeper
/// than Python's tokenizer takes, and nothing but printable ASCII stands outside strings. Only
/// double quotes begin strings, as in generated code. Expressions are not looked into.
std::optional<std::string> findSyntaxError(llvm::StringRef text);

} // namespace heterplan::python
