// heterplan explain: what a diagnostic code means and how it is mended.
#include "Commands.h"

#include "support/Diagnostic.h"
#include "support/Suggestion.h"

#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace heterplan;
using namespace llvm;

namespace {

struct Explanation {
  const char *meaning;
  const char *remedy;
};

Explanation explanationOf(Diag diag) {
  switch (diag) {
#define HETERPLAN_EXPLANATION(enumerator, meaning, remedy)                                         \
  case Diag::enumerator:                                                                           \
    return {meaning, remedy};
#include "Explanations.def"
  }
  llvm_unreachable("all diagnostics are explained");
}

constexpr Diag diagnostics[] = {
#define HETERPLAN_DIAG(enumerator, code) Diag::enumerator,
#include "support/Diagnostics.def"
};

std::string codeOf(Diag diag) { return "HP" + std::to_string(int(diag)); }

/// "HP1212", "hp1212" and "1212" are one.
const Diag *find(StringRef text) {
  text.consume_front_insensitive("HP");
  return find_if(diagnostics, [&](Diag diag) { return std::to_string(int(diag)) == text; });
}

Error unknown(StringRef text) {
  std::vector<std::string> codes;
  for (Diag diag : diagnostics)
    codes.push_back(codeOf(diag));
  return Diagnostic(Diag::Usage, {"", 0, 0, "CODE"})
             .note({}, "'heterplan explain' lists all of them")
         << "there is no diagnostic '" << text << "'" << didYouMean(text, codes);
}

void printAll() {
  for (Diag diag : diagnostics)
    outs() << codeOf(diag) << "  " << explanationOf(diag).meaning << '\n';
}

Expected<ExitStatus> explainCode(StringRef text) {
  if (text.empty()) {
    printAll();
    return exitDone;
  }
  const Diag *diag = find(text);
  if (diag == std::end(diagnostics))
    return unknown(text);
  Explanation explanation = explanationOf(*diag);
  outs() << codeOf(*diag) << ": " << explanation.meaning << "\nTo mend it: " << explanation.remedy
         << '\n';
  return exitDone;
}

} // namespace

void heterplan::addExplain(CLI::App &root, Action &action) {
  CLI::App *command = root.add_subcommand("explain", "say what a diagnostic code means");
  auto code = std::make_shared<std::string>();
  command->add_option("CODE", *code, "as in [HP1212]; without one all are listed")->type_name("");
  command->callback([code, &action] { action = [code] { return explainCode(*code); }; });
}
