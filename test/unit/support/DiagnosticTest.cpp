#include "support/Diagnostic.h"

#include "llvm/Support/JSON.h"

#include "gtest/gtest.h"

#include <set>

using namespace heterplan;

namespace {

std::string print(const Location &location) {
  std::string text;
  llvm::raw_string_ostream(text) << location;
  return text;
}

TEST(Location, LeavesOutWhatIsUnknown) {
  EXPECT_EQ(print({}), "");
  EXPECT_EQ(print({"a.yaml", 0, 0, ""}), "a.yaml");
  EXPECT_EQ(print({"a.yaml", 7, 19, ""}), "a.yaml:7:19");
  EXPECT_EQ(print({"a.yaml", 7, 0, ""}), "a.yaml:7:1");
  EXPECT_EQ(print({"a.onnx", 0, 0, "node 'conv1'"}), "a.onnx: node 'conv1'");
  EXPECT_EQ(print({"", 0, 0, "stages[2].layers"}), "stages[2].layers");
}

TEST(Diagnostic, PrintsPlaceCodeAndMessage) {
  llvm::Error error = Diagnostic(Diag::NotASize, {"mixed.yaml", 7, 19, ""})
                      << "memory '" << std::string("16GX") << "' of device type 'v100' is not a "
                      << "size; write 16GiB";
  EXPECT_EQ(toText(std::move(error)), "mixed.yaml:7:19: error: [HP1212] memory '16GX' of device "
                                      "type 'v100' is not a size; write 16GiB");
}

TEST(Diagnostic, PrintsWithoutPlace) {
  llvm::Error error = Diagnostic(Diag::Usage, {}) << "no such option";
  EXPECT_EQ(toText(std::move(error)), "error: [HP1801] no such option");
}

TEST(Diagnostic, PrintsNumbers) {
  llvm::Error error = Diagnostic(Diag::OutOfRange, {})
                      << 1 << ' ' + std::string() << 2u << " " << size_t(3) << " " << int64_t(-4)
                      << " " << 0.1 << " " << 1e12;
  EXPECT_EQ(toText(std::move(error)), "error: [HP1216] 1 2 3 -4 0.1 1e+12");
}

TEST(Diagnostic, PrintsNotesInOrder) {
  llvm::Error error = Diagnostic(Diag::UnknownLayer, {"p.json", 0, 0, ""})
                          .note({"m.onnx", 0, 0, ""}, "layers are named here")
                          .note({}, "did you mean 'conv1'?")
                      << "no layer 'conv'";
  EXPECT_EQ(toText(std::move(error)), "p.json: error: [HP1301] no layer 'conv'\n"
                                      "m.onnx: note: layers are named here\n"
                                      "note: did you mean 'conv1'?");
}

TEST(Diagnostic, ShortensHostileStrings) {
  std::string hostile(10'000'000, 'x');
  std::string text =
      toText(Diagnostic(Diag::UnknownLayer, {hostile, 1, 1, ""}) << "no layer '" << hostile << "'");
  EXPECT_LT(text.size(), 500u);
  EXPECT_NE(text.find("xxx...xxx"), std::string::npos);
}

TEST(Diagnostic, ShortensBetweenCharacters) {
  std::string name = "x";
  for (int i = 0; i < 300; ++i)
    name += "é";
  EXPECT_TRUE(llvm::json::isUTF8(print({"m.onnx", 0, 0, name})));
  EXPECT_TRUE(llvm::json::isUTF8(print({"m.onnx", 0, 0, name + "x"})));
}

TEST(Diagnostic, KeepsStringsOfTheLimitWhole) {
  std::string longest(200, 'x');
  std::string text = toText(Diagnostic(Diag::UnknownLayer, {}) << longest);
  EXPECT_NE(text.find(longest), std::string::npos);
  text = toText(Diagnostic(Diag::UnknownLayer, {}) << longest + "x");
  EXPECT_EQ(text.find(longest), std::string::npos);
}

TEST(Diagnostic, ReplacesControlCharacters) {
  std::string text =
      toText(Diagnostic(Diag::UnknownLayer, {"a\033[2J", 0, 0, ""}) << "no layer 'x\ny\x7f'");
  EXPECT_EQ(text, "a?[2J: error: [HP1301] no layer 'x y?'");
}

TEST(Diagnostic, ConvertsToExpected) {
  auto fails = []() -> llvm::Expected<int> { return Diagnostic(Diag::Usage, {}) << "no"; };
  llvm::Expected<int> result = fails();
  ASSERT_FALSE(static_cast<bool>(result));
  llvm::handleAllErrors(result.takeError(), [](const DiagnosticError &error) {
    EXPECT_EQ(error.code, Diag::Usage);
    EXPECT_EQ(error.message, "no");
  });
}

TEST(Diagnostic, CodesAreUniqueAndOfFourDigits) {
  std::multiset<int> codes{
#define HETERPLAN_DIAG(enumerator, code) code,
#include "support/Diagnostics.def"
  };
  for (int code : codes) {
    EXPECT_EQ(codes.count(code), 1u) << code;
    EXPECT_TRUE(code >= 1000 && code <= 9999) << code;
  }
}

} // namespace
