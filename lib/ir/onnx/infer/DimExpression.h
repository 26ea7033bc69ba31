// Dimensions as exporters write them: a symbol ("batch", "s77"), or arithmetic on symbols
// ("past_length + 1", "2*s0"). Each is evaluated to a line in the batch.
#pragma once

#include "ir/Graph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace heterplan {

/// The symbols of `text`, in order of appearance: `text` itself where it is not an expression of
/// +, -, *, //, parentheses, integers and names.
std::vector<std::string> symbolsOf(llvm::StringRef text);

/// The value of `text` where `valueOf` gives that of each symbol. Nothing where a symbol has none,
/// where the value is not a line in the batch, or where it overflows.
std::optional<Dim>
evaluateDim(llvm::StringRef text,
            llvm::function_ref<std::optional<Dim>(llvm::StringRef symbol)> valueOf);

} // namespace heterplan
