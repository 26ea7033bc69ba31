// The text of --help: lines end at 100 columns, and options stand under the headings of
// beginGroup().
#pragma once

#include "llvm/ADT/StringRef.h"

#include <CLI/CLI.hpp>

#include <string>

namespace heterplan {

/// Columns before the description of an option.
constexpr int helpIndent = 30;

/// `text` with its blanks replaced by line breaks where lines would pass `width` columns.
std::string wrapped(llvm::StringRef text, size_t width);

/// The description of an option in help, wrapped behind helpIndent.
std::string wrappedHelp(llvm::StringRef text);

class HelpFormatter : public CLI::Formatter {
public:
  HelpFormatter() { column_width(helpIndent); }
  std::string make_help(const CLI::App *app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option_desc(const CLI::Option *option) const override;
};

} // namespace heterplan
