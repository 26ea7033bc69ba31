// The seeds of the importer's fuzz target: those that are models are read, the others are refused
// for the reason that they were made for.
#include "ir/onnx/Importer.h"
#include "ir/onnx/group/Grouping.h"
#include "support/Diagnostic.h"

#include "gtest/gtest.h"

using namespace heterplan;

namespace {

std::string outcome(const std::string &seed) {
  llvm::Expected<Graph> graph =
      importGraph(HETERPLAN_SOURCE_DIR "/test/fuzz/corpus/onnx/" + seed + ".onnx");
  if (!graph)
    return toText(graph.takeError());
  llvm::Expected<LayerGraph> layers = groupLayers(*graph);
  return layers ? "read" : toText(layers.takeError());
}

TEST(Seeds, ModelsAreRead) {
  // `attention` and `shapes` have scalar initializers, which the checker must accept.
  for (const char *seed :
       {"attention", "conv", "external", "function", "if", "pool", "residual", "shapes"})
    EXPECT_EQ(outcome(seed), "read") << seed;
}

TEST(Seeds, OthersAreRefusedForTheirReason) {
  EXPECT_NE(outcome("cycle").find("[HP1102]"), std::string::npos) << outcome("cycle");
  EXPECT_NE(outcome("empty").find("[HP1101]"), std::string::npos) << outcome("empty");
  EXPECT_NE(outcome("truncated").find("[HP1101]"), std::string::npos) << outcome("truncated");
  EXPECT_NE(outcome("huge").find("[HP1106]"), std::string::npos) << outcome("huge");
}

} // namespace
