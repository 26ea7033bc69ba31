// The frame that all reports share: one self-contained page of HTML with inline styles, and its
// tables and figures.
#pragma once

#include "codegen/Html.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace heterplan::html {

/// A whole page; `title` is escaped, `body` stands in it as it is.
std::string page(llvm::StringRef title, const std::string &body);
/// A part that scrolls by itself where the page is narrow.
std::string wide(const std::string &html);
/// A named figure, for a list <dl>.
std::string term(llvm::StringRef name, const std::string &value);
/// A row of a table; `numeric` cells are aligned to the right.
std::string row(const std::vector<std::string> &cells, llvm::ArrayRef<bool> numeric,
                llvm::StringRef tag = "td");

} // namespace heterplan::html
