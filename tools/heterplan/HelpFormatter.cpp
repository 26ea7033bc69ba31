#include "HelpFormatter.h"

#include "support/Text.h"

using namespace llvm;

namespace heterplan {

std::string wrapped(StringRef text, size_t width) {
  std::string result;
  size_t column = 0;
  while (!text.empty()) {
    auto [word, rest] = text.split(' ');
    size_t columns = columnsOf(word.str());
    if (column > 0 && column + 1 + columns > width) {
      result += '\n';
      column = 0;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += columns;
    text = rest;
  }
  return result;
}

std::string wrappedHelp(StringRef text) {
  constexpr size_t lineWidth = 100;
  return wrapped(text, lineWidth - helpIndent);
}

std::string HelpFormatter::make_help(const CLI::App *app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n"))
    text.erase(at, 1);
  return text;
}

std::string HelpFormatter::make_option_desc(const CLI::Option *option) const {
  return wrappedHelp(option->get_description());
}

} // namespace heterplan
