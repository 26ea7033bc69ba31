// docs/formats.md must say what the readers accept: its examples are files that parse, and every
// field of the schema is in it.
#include "ir/FileForms.h"

#include "Diagnosed.h"

#include "support/Files.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <gtest/gtest.h>

using namespace heterplan;
using heterplan::test::diagnosed;
using llvm::StringRef;

namespace {
std::string contents(const std::string &path) {
  auto text = readFile(HETERPLAN_SOURCE_DIR "/" + path);
  EXPECT_TRUE(bool(text)) << toText(text.takeError());
  return text ? *text : "";
}

/// The block of the document that opens with ```<label>.
std::string block(StringRef document, StringRef label) {
  StringRef rest = document.split(("```" + label + "\n").str()).second;
  return rest.split("```").first.str();
}

/// Each name in the note "accepted are a, b, c" must be written `a` in the document.
void expectDocumented(const DiagnosticError &error, StringRef document) {
  ASSERT_EQ(error.code, Diag::UnknownField) << error.message;
  ASSERT_EQ(error.notes.size(), 1u);
  llvm::SmallVector<StringRef, 32> names;
  StringRef(error.notes[0].text).split("accepted are ").second.split(names, ", ");
  EXPECT_GT(names.size(), 1u);
  for (StringRef name : names)
    EXPECT_TRUE(document.contains(("`" + name + "`").str()) ||
                document.contains(("\"" + name + "\"").str()))
        << name.str() << " is not in docs/formats.md";
}
} // namespace

TEST(FormatsDoc, ExamplesAreTheFiles) {
  std::string document = contents("docs/formats.md");
  EXPECT_EQ(block(document, "json layers"), contents("test/data/hand/chain.layers.json"));
  EXPECT_EQ(block(document, "json profile"), contents("test/data/hand/chain.profile.json"));
  EXPECT_EQ(block(document, "yaml"), contents("test/data/hand/pair.yaml"));
}

TEST(FormatsDoc, ExamplesParse) {
  for (const char *name : {"chain", "branched"}) {
    std::string stem = std::string(HETERPLAN_SOURCE_DIR "/test/data/hand/") + name;
    auto graph = readLayerGraph(stem + ".layers.json");
    EXPECT_TRUE(bool(graph)) << toText(graph.takeError());
    auto profile = readProfile(stem + ".profile.json");
    EXPECT_TRUE(bool(profile)) << toText(profile.takeError());
  }
}

TEST(FormatsDoc, EveryFieldIsThere) {
  std::string document = contents("docs/formats.md");
  for (const char *text :
       {R"({"zz": 1})", R"({"layers": [{"zz": 1}]})", R"({"layers": [{"tables": [{"zz": 1}]}]})",
        R"({"tensors": [{"zz": 1}]})", R"({"tensors":[{"shape":[{"zz":1}]}]})"})
    expectDocumented(diagnosed(parseLayerGraph(text, "x")), document);
  for (const char *text : {R"({"zz": 1})", R"({"entries": [{"zz": 1}]})",
                           R"({"links": [{"zz": 1}]})", R"({"layers": [{"zz": 1}]})"})
    expectDocumented(diagnosed(parseProfile(text, "x")), document);
  for (const char *field :
       {R"("zz": 1)", R"("stages": [{"zz": 1}])", R"("stages": [{"tables": [{"zz": 1}]}])",
        R"("stages": [{"replicas": [{"zz": 1}]}])",
        R"("stages": [{"replicas": [{"devices": [{"zz": 1}]}]}])", R"("checks": [{"zz": 1}])",
        R"("pins": [{"zz": 1}])", R"("provenance": {"zz": 1})"})
    expectDocumented(
        diagnosed(parsePlan(R"({"schemaVersion": "1.0", )" + std::string(field) + "}", "x")),
        document);
  for (const char *field :
       {R"("zz": 1)", R"("instructions": [{"zz": 1}])", R"("parts": [{"zz": 1}])",
        R"("parts": [{"tables": [{"zz": 1}]}])", R"("parts": [{"sends": [{"zz": 1}]}])",
        R"("parts": [{"samples": {"zz": 1}}])", R"("instructions": [{"ranges": [{"zz": 1}]}])"})
    expectDocumented(
        diagnosed(parseRankFile(R"({"schemaVersion": "1.0", )" + std::string(field) + "}", "x")),
        document);
  for (const char *field :
       {R"("zz": 1)", R"("traceEvents": [{"zz": 1}])", R"("traceEvents": [{"args": {"zz": 1}}])"})
    expectDocumented(
        diagnosed(parseTimeline(
            R"({"otherData": {"schemaVersion": "1.0"}, )" + std::string(field) + "}", "x")),
        document);
}
