#include "codegen/PythonCheck.h"

#include <vector>

using namespace llvm;

namespace heterplan::python {
namespace {
constexpr size_t deepestBracket = 190, deepestBlock = 95; // Python's own are 200 and 100

class Outline {
public:
  explicit Outline(StringRef text) : text(text) {}

  std::optional<std::string> run() {
    while (at < text.size() && error.empty())
      readLogicalLine();
    if (error.empty() && opensBlock)
      fail("a block has no statement");
    return error.empty() ? std::nullopt
                         : std::optional("line " + std::to_string(line) + ": " + error);
  }

private:
  StringRef text;
  size_t at = 0, line = 1;
  std::string error;
  std::vector<size_t> blocks{0};
  std::string brackets; // what closes each open one
  bool opensBlock = false;

  void fail(const char *why) {
    if (error.empty())
      error = why;
  }

  bool ahead(StringRef what) const { return text.substr(at).startswith(what); }

  void endLine() {
    ++line;
    ++at;
  }

  void readLogicalLine() {
    size_t begin = at;
    while (ahead(" "))
      ++at;
    size_t indent = at - begin;
    if (ahead("#"))
      skipComment();
    if (ahead("\n"))
      return endLine();
    if (at == text.size())
      return;
    indentTo(indent);
    char last = 0;
    while (at < text.size() && error.empty() && !(ahead("\n") && brackets.empty()))
      readToken(last);
    if (!brackets.empty())
      fail("a bracket does not close");
    opensBlock = last == ':';
    if (at < text.size() && error.empty())
      endLine();
  }

  void indentTo(size_t indent) {
    if (opensBlock) {
      if (indent <= blocks.back())
        fail("a block has no statement");
      blocks.push_back(indent);
      if (blocks.size() > deepestBlock)
        fail("blocks nest too deeply");
      return;
    }
    while (blocks.size() > 1 && indent < blocks.back())
      blocks.pop_back();
    if (indent != blocks.back())
      fail("a line is indented, but none before it opens a block");
  }

  void skipComment() {
    while (at < text.size() && text[at] != '\n')
      ++at;
  }

  void readToken(char &last) {
    char c = text[at];
    if (c == '#')
      return skipComment();
    if (c == '\n')
      return endLine();
    if (c == '"')
      readString();
    else if (c < ' ' || c > '~')
      return fail("a character stands outside of a string");
    else if (c == '(' || c == '[' || c == '{')
      open(c);
    else if (c == ')' || c == ']' || c == '}')
      close(c);
    else
      ++at;
    if (c != ' ')
      last = c;
  }

  void open(char c) {
    brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (brackets.size() > deepestBracket)
      fail("brackets nest too deeply");
    ++at;
  }

  void close(char c) {
    if (brackets.empty() || brackets.back() != c)
      return fail("a bracket closes that is not open");
    brackets.pop_back();
    ++at;
  }

  void readString() {
    bool isLong = ahead("\"\"\"");
    StringRef quotes = isLong ? "\"\"\"" : "\"";
    at += quotes.size();
    while (at < text.size() && !ahead(quotes)) {
      if (text[at] == '\n' && !isLong)
        return fail("a string does not close");
      line += text[at] == '\n';
      at += text[at] == '\\' ? 2 : 1;
    }
    if (at >= text.size())
      return fail("a string does not close");
    at += quotes.size();
  }
};
} // namespace

std::optional<std::string> findSyntaxError(StringRef text) { return Outline(text).run(); }

} // namespace heterplan::python
