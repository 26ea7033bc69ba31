// Diagnostics of the file forms: what each defect of a file is called and where it is found.
#include "ir/FileForms.h"

#include "Diagnosed.h"

#include "support/Files.h"

#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

using namespace heterplan;
using heterplan::test::diagnosed;
using testing::Values;

namespace {
struct Defect {
  const char *text;
  Diag code;
  unsigned column; // all texts have one line
  const char *message;
};

void expectDefect(const Defect &defect, const DiagnosticError &found) {
  EXPECT_EQ(found.code, defect.code) << defect.text << found.message;
  EXPECT_EQ(found.location.line, 1u) << defect.text;
  EXPECT_EQ(found.location.column, defect.column) << defect.text << found.message;
  EXPECT_NE(found.message.find(defect.message), std::string::npos) << defect.text << found.message;
  EXPECT_EQ(found.location.file, "x.json");
}

class LayerGraphDefect : public testing::TestWithParam<Defect> {};
class ProfileDefect : public testing::TestWithParam<Defect> {};

TEST_P(LayerGraphDefect, IsDiagnosed) {
  expectDefect(GetParam(), diagnosed(parseLayerGraph(GetParam().text, "x.json")));
}
TEST_P(ProfileDefect, IsDiagnosed) {
  expectDefect(GetParam(), diagnosed(parseProfile(GetParam().text, "x.json")));
}

INSTANTIATE_TEST_SUITE_P(
    FileForms, LayerGraphDefect,
    Values(Defect{"", Diag::Syntax, 1, "the end of the file"},
           Defect{"[]", Diag::WrongType, 1, "must be a JSON object"},
           Defect{"{", Diag::Syntax, 2, "expected a key"},
           Defect{"{} x", Diag::Syntax, 4, "after the value"},
           Defect{R"({"layers": [{"name": "a"},]})", Diag::Syntax, 27, "expected a value"},
           Defect{R"({"layers": [null]})", Diag::Syntax, 13, "found null"},
           Defect{R"({"layers": [], "layers": []})", Diag::DuplicateName, 16, "twice"},
           Defect{"{}", Diag::MissingField, 1, "'layers'"},
           Defect{R"({"layers": []})", Diag::MissingField, 1, "'layers'"},
           Defect{R"({"layers": [{"kind": "opaque"}]})", Diag::MissingField, 13, "'name'"},
           Defect{R"({"layers": [{"nme": "a"}]})", Diag::UnknownField, 21, "'nme'"},
           Defect{R"({"layers": [{"name": "a"}], "b": 1})", Diag::UnknownField, 34, "'b'"},
           Defect{R"({"layers": [{"name": 3}]})", Diag::WrongType, 22, "a string"},
           Defect{R"({"layers": [3]})", Diag::WrongType, 13, "an object"},
           Defect{R"({"layers": [{"name": ["a"]}]})", Diag::WrongType, 22, "list"},
           Defect{R"({"layers": [{"name": "a", "kind": "conv"}]})", Diag::WrongType, 35, "'conv'"},
           Defect{R"({"layers": [{"name": "a", "forwardFlops": "x"}]})", Diag::WrongType, 43,
                  "a number"},
           Defect{R"({"layers": [{"name": "a", "forwardFlops": "NaN"}]})", Diag::OutOfRange, 43,
                  "'forwardFlops' is nan"},
           Defect{R"({"layers": [{"name": "a", "forwardFlops": "Infinity"}]})", Diag::OutOfRange,
                  43, "is inf"},
           Defect{R"({"layers": [{"name": "a", "forwardFlops": -1}]})", Diag::OutOfRange, 43,
                  "numbers from 0 to 1e+30"},
           Defect{R"({"layers": [{"name": "a", "forwardFlops": 1e31}]})", Diag::OutOfRange, 43,
                  "is 1e+31"},
           Defect{R"({"layers": [{"name": "a", "forwardFlops": 1e999}]})", Diag::Syntax, 43,
                  "too large"},
           Defect{R"({"layers": [{"name": "a"}, {"name": "a"}]})", Diag::DuplicateName, 28,
                  "two layers"},
           Defect{R"({"schemaVersion": "2.0", "layers": [{"name": "a"}]})", Diag::NewerVersion, 19,
                  "version 2.0"},
           Defect{R"({"schemaVersion": "new", "layers": [{"name": "a"}]})", Diag::WrongType, 19,
                  "not a version"}));

INSTANTIATE_TEST_SUITE_P(
    Tensors, LayerGraphDefect,
    Values(
        Defect{R"({"layers":[{"name":"a"}],"tensors":[{"name":"t"}]})", Diag::MissingField, 37,
               "'producer'"},
        Defect{R"({"layers":[{"name":"a"}],"tensors":[{"name":"t","producer":"b"}]})",
               Diag::UnknownLayer, 60, "'b'"},
        Defect{
            R"({"layers":[{"name":"a"}],"tensors":[{"name":"t","producer":"a","consumers":["c"]}]})",
            Diag::UnknownLayer, 77, "'c'"},
        Defect{
            R"({"layers":[{"name":"a"}],"tensors":[{"name":"t","producer":"a","consumers":["a"]}]})",
            Diag::CyclicGraph, 37, "form a cycle"},
        Defect{R"({"layers":[{"name":"a"}],"tensors":[{"name":"t","producer":"a","type":"f"}]})",
               Diag::WrongType, 71, "'f'"},
        Defect{
            R"({"layers":[{"name":"a"}],"tensors":[{"name":"t","producer":"a","shape":[{"fixed":0.5}]}]})",
            Diag::OutOfRange, 82, "whole"}));

INSTANTIATE_TEST_SUITE_P(
    FileForms, ProfileDefect,
    Values(
        Defect{R"({"entries":[{"signature":"s","deviceType":"g","batch":1,"forwardSeconds":1}]})",
               Diag::MissingField, 13, "'backwardSeconds'"},
        Defect{R"({"entries":[{"signature":"s","deviceType":"g","batch":1,"backwardSeconds":1}]})",
               Diag::MissingField, 13, "'forwardSeconds'"},
        Defect{
            R"({"entries":[{"signature":"s","deviceType":"g","batch":1,"forwardSeconds":null,"backwardSeconds":1}]})",
            Diag::MissingField, 13, "'forwardSeconds'"},
        Defect{
            R"({"entries":[{"signature":"s","batch":1,"forwardSeconds":1,"backwardSeconds":1}]})",
            Diag::MissingField, 13, "'deviceType'"},
        Defect{
            R"({"entries":[{"signature":"s","deviceType":"g","forwardSeconds":1,"backwardSeconds":1}]})",
            Diag::MissingField, 13, "'batch'"},
        Defect{
            R"({"entries":[{"signature":"s","deviceType":"g","batch":0.5,"forwardSeconds":1,"backwardSeconds":1}]})",
            Diag::OutOfRange, 55, "whole numbers"},
        Defect{
            R"({"entries":[{"signature":"s","deviceType":"g","batch":3e9,"forwardSeconds":1,"backwardSeconds":1}]})",
            Diag::OutOfRange, 55, "2147483647"},
        Defect{
            R"({"entries":[{"signature":"s","deviceType":"g","batch":0,"forwardSeconds":1,"backwardSeconds":1}]})",
            Diag::InvalidProfile, 13, "batch"},
        Defect{
            R"({"entries":[{"deviceType":"g","batch":1,"forwardSeconds":1,"backwardSeconds":1}]})",
            Diag::InvalidProfile, 13, "exactly one"},
        Defect{
            R"({"entries":[{"signature":"s","layer":"l","deviceType":"g","batch":1,"forwardSeconds":1,"backwardSeconds":1}]})",
            Diag::InvalidProfile, 13, "exactly one"},
        Defect{R"({"links":[{"name":"l","bandwidthBytesPerSecond":0,"latencySeconds":0}]})",
               Diag::InvalidProfile, 11, "not positive"},
        Defect{R"({"threads": 3000000000})", Diag::WrongType, 13, "whole number"},
        Defect{R"({"threads": -1})", Diag::OutOfRange, 13, "-1"},
        Defect{R"({"threads": 1.5})", Diag::WrongType, 13, "whole number"}));

TEST(FileForms, UnknownFieldListsTheAcceptedOnes) {
  DiagnosticError error = diagnosed(parseLayerGraph(R"({"layers": [{"nme": "a"}]})", "x"));
  ASSERT_EQ(error.notes.size(), 1u);
  EXPECT_NE(error.notes[0].text.find("name, kind, signature"), std::string::npos);
}

TEST(FileForms, LinesAreCounted) {
  DiagnosticError error = diagnosed(parseLayerGraph("{\n \"layers\": [\n  {\"name\": 7}]}", "x"));
  EXPECT_EQ(error.location.line, 3u);
  EXPECT_EQ(error.location.column, 12u);
  EXPECT_EQ(error.location.element, "layers[0].name");
}

TEST(FileForms, NewerMinorVersionIsRead) {
  auto graph = parseLayerGraph(
      R"({"schemaVersion": "1.7", "colour": {"of": "money"}, "layers": [{"name": "a"}]})", "x");
  ASSERT_TRUE(bool(graph)) << toText(graph.takeError());
  EXPECT_EQ(graph->layers[0].name, "a");
}

TEST(FileForms, HandWrittenChainNeedsLittle) {
  auto graph = parseLayerGraph(R"({"layers": [{"name": "a"}, {"name": "b"}]})", "x");
  ASSERT_TRUE(bool(graph)) << toText(graph.takeError());
  EXPECT_EQ(graph->layers[1].signature, "b");
  EXPECT_EQ(graph->layers[1].kind, LayerKind::Opaque);
  EXPECT_EQ(graph->cuts()[1].forwardBytes, Bytes(0));
  EXPECT_EQ(graph->fingerprint, sha256(R"({"layers": [{"name": "a"}, {"name": "b"}]})"));
}

TEST(FileForms, TensorsDefaultToDifferentiableFloats) {
  auto graph = parseLayerGraph(
      R"({"layers": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
          "tensors": [{"name": "t", "producer": "a", "consumers": ["c", "b", "c"],
                       "bytesPerSample": 8}]})",
      "x");
  ASSERT_TRUE(bool(graph)) << toText(graph.takeError());
  EXPECT_TRUE(graph->tensors[0].differentiable);
  EXPECT_EQ(graph->tensors[0].type, DataType::Float32);
  EXPECT_EQ(graph->tensors[0].consumers, (std::vector<int>{1, 2}));
}

TEST(FileForms, WrittenZeroIsATime) {
  auto profile = parseProfile(R"({"entries":[{"signature":"s","deviceType":"g","batch":1,
      "forward_seconds": 0.0, "backwardSeconds": 0e5}]})",
                              "x");
  EXPECT_TRUE(bool(profile)) << toText(profile.takeError());
}

TEST(FileForms, PlanNeedsItsVersionAndItsFields) {
  EXPECT_EQ(diagnosed(parsePlan("{}", "x")).code, Diag::MissingField);
  DiagnosticError error = diagnosed(parsePlan(R"({"schemaVersion": "1.0"})", "x"));
  EXPECT_EQ(error.code, Diag::MissingField);
  EXPECT_NE(error.message.find("'globalBatch'"), std::string::npos) << error.message;
}

TEST(FileForms, KernelsKeepTheFormatOfTheirImages) {
  LayerGraph graph;
  graph.layers.resize(1);
  graph.layers[0].name = graph.layers[0].signature = "c";
  KernelWork last;
  last.kind = LayerKind::DepthwiseConvolution;
  last.product = {196, 1, 49, 384};
  KernelWork any = last;
  last.channelsLast = true;
  graph.layers[0].kernels = {last, any};
  auto copy = parseLayerGraph(toJson(graph), "x");
  ASSERT_TRUE(bool(copy)) << toText(copy.takeError());
  EXPECT_EQ(copy->layers[0].kernels, graph.layers[0].kernels);
}

TEST(FileForms, NamesThatAreNotUtf8ArePrintedMended) {
  LayerGraph graph;
  graph.layers.resize(1);
  graph.layers[0].name = graph.layers[0].signature = "a\xff"
                                                     "b\xc3";
  auto copy = parseLayerGraph(toJson(graph), "x");
  ASSERT_TRUE(bool(copy)) << toText(copy.takeError());
  EXPECT_EQ(copy->layers[0].name, "a?b?");
}

TEST(FileForms, DeepAndLongInputsAreRefusedNotFollowed) {
  std::string deep(1000000, '[');
  EXPECT_EQ(diagnosed(parsePlan(deep, "x")).code, Diag::Syntax);
  std::string objects;
  for (int i = 0; i < 100000; ++i)
    objects += "{\"a\":";
  EXPECT_EQ(diagnosed(parseProfile(objects, "x")).code, Diag::Syntax);
  std::string name(10 << 20, 'x');
  std::string text = R"({"layers": [{"name": "a", "kind": ")" + name + R"("}]})";
  DiagnosticError error = diagnosed(parseLayerGraph(text, "x"));
  EXPECT_EQ(error.code, Diag::WrongType);
  EXPECT_LT(error.message.size(), 1000u);
  std::string field = R"({"layers": [{")" + name + R"(": 1}]})";
  EXPECT_EQ(diagnosed(parseLayerGraph(field, "x")).code, Diag::UnknownField);
}

TEST(FileForms, ControlCharactersAndBadEscapesAreRefused) {
  for (const char *text :
       {"{\"model\": \"a\nb\"}", R"({"model": "\q"})", R"({"model": "\ud800"})",
        R"({"model": "\udc00"})", "{\"model\": \"\xff\"}", R"({"model": "\u12"})",
        R"({"model": "a})", "{\"model\": tru}", "{\"threads\": 01}", "{\"threads\": 1.}",
        "{\"threads\": -}", "{'model': 1}", "{model: 1}", "{\"threads\" 1}", "{\"threads\": 1e}",
        "\xef\xbb\xbf{}"})
    EXPECT_EQ(diagnosed(parseProfile(text, "x")).code, Diag::Syntax) << text;
}

TEST(FileForms, AbsentFilesAreSaidSo) {
  EXPECT_EQ(diagnosed(readPlan("/nowhere/plan.json")).code, Diag::CannotRead);
  EXPECT_EQ(diagnosed(readLayerGraph("/nowhere/x")).code, Diag::CannotRead);
  EXPECT_EQ(diagnosed(readProfile("/nowhere/x")).code, Diag::CannotRead);
  EXPECT_EQ(diagnosed(readTimeline("/nowhere/x")).code, Diag::CannotRead);
  EXPECT_EQ(diagnosed(readProgram("/nowhere/x")).code, Diag::CannotRead);
}
} // namespace
