#include "Fuzzing.h"
#include "ir/FileForms.h"

#include "llvm/ADT/SmallVector.h"

using namespace heterplan;

namespace {
// The input is the files of all ranks, with this between them.
constexpr const char *separator = "\n%%\n";
constexpr size_t mostRanks = 16;

std::string rankName(size_t rank) {
  std::string digits = std::to_string(rank);
  return "ranks/" + std::string(4 - digits.size(), '0') + digits + ".json";
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzzing::TemporaryDirectory directory;
  llvm::sys::fs::remove_directories(directory.at("ranks"));
  llvm::sys::fs::create_directory(directory.at("ranks"));
  llvm::SmallVector<llvm::StringRef, mostRanks> files;
  fuzzing::textOf(data, size).split(files, separator, mostRanks - 1);
  for (size_t rank = 0; rank < files.size(); ++rank)
    fuzzing::write(directory.at(rankName(rank)), files[rank]);

  llvm::Expected<Program> program = readProgram(directory.at(""));
  if (!program) {
    fuzzing::expectDiagnostic(program.takeError());
    return 0;
  }
  for (size_t rank = 0; rank < program->ranks.size(); ++rank)
    fuzzing::write(directory.at(rankName(rank)), toJson(*program, static_cast<int>(rank)));
  llvm::Expected<Program> again = readProgram(directory.at(""));
  if (!again)
    fuzzing::fail("cannot read what it printed: " + toText(again.takeError()));
  if (!(*again == *program))
    fuzzing::fail("printing and reading changed the program");
  return 0;
}
