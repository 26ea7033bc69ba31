// Text and numbers for people, in HTML.
#pragma once

#include "support/Units.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace heterplan::html {

/// `text` with <, >, &, quotes and control characters made harmless.
std::string escape(llvm::StringRef text);
/// `<tag>escaped text</tag>`; `attributes` stand in the tag as they are.
std::string element(llvm::StringRef tag, llvm::StringRef text, llvm::StringRef attributes = "");
/// Three significant digits with a unit: "1.23 ms", "15.9 GiB".
std::string readable(Seconds time);
std::string readable(Bytes size);
/// `digits` significant digits, thousands not separated.
std::string number(double value, int digits = 4);
/// `digits` after the point.
std::string fixed(double value, int digits);

} // namespace heterplan::html
