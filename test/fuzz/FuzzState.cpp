#include "Fuzzing.h"
#include "search/jobs/online/Online.h"
#include "support/Files.h"

using namespace heterplan;

namespace {
/// `text` with the checksum that its contents have: else nearly every input would end there.
std::string withChecksum(llvm::StringRef text) {
  constexpr llvm::StringLiteral key = "  \"checksum\": \"";
  size_t at = text.rfind(key);
  llvm::StringRef body = text.take_front(at);
  return (body + key + sha256(body) + "\"\n}\n").str();
}

void use(jobs::State state) {
  llvm::Expected<Cluster> cluster = parseCluster(state.clusterText, "cluster");
  if (!cluster)
    return fuzzing::expectDiagnostic(cluster.takeError());
  if (cluster->totalDevices() > 100 || state.slots > 100)
    return;
  if (llvm::Error error = verify(state, *cluster))
    return fuzzing::expectDiagnostic(std::move(error));
  std::string node = nodeName(cluster->nodes.front(), 0);
  auto outcomes = jobs::nodeDown(state, *cluster, node, {});
  if (!outcomes)
    fuzzing::expectDiagnostic(outcomes.takeError());
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text = withChecksum(fuzzing::textOf(data, size));
  auto state = jobs::parseState(text, "input");
  if (!state) {
    fuzzing::expectDiagnostic(state.takeError());
    return 0;
  }
  std::string printed = toJson(*state);
  auto again = jobs::parseState(printed, "printed");
  if (!again)
    fuzzing::fail("cannot read what it printed: " + toText(again.takeError()));
  if (toJson(*again) != printed)
    fuzzing::fail("printing and reading changed the state:\n" + printed);
  use(std::move(*state));
  return 0;
}
