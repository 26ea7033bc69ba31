// operator-table: the rows of docs/operators.md, from the tables of the importer and the emitters.
#include "codegen/NodeEmitter.h"
#include "ir/onnx/group/OperatorList.h"

#include "llvm/Support/raw_ostream.h"

using namespace heterplan;
using namespace llvm;

int main() {
  StringRef domain = "?";
  std::vector<OperatorFacts> operators = operatorList();
  for (const OperatorFacts &facts : operators) {
    if (facts.domain != domain) {
      domain = facts.domain;
      outs() << "\n## " << (domain.empty() ? "Default domain" : domain) << "\n\n"
             << "| operator | imports | costed | generated | differentiable |\n"
             << "| --- | --- | --- | --- | --- |\n";
    }
    auto mark = [](bool holds) { return holds ? "yes" : "–"; };
    outs() << "| " << facts.name << " | ";
    if (facts.rewritten)
      outs() << "rewritten | | | |\n";
    else
      outs() << "yes | " << mark(facts.costed) << " | " << mark(hasRule(facts.domain, facts.name))
             << " | " << mark(facts.differentiable) << " |\n";
  }
  return 0;
}
