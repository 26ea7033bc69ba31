#include "codegen/Python.h"
#include "codegen/PythonCheck.h"

#include <gtest/gtest.h>

#include <limits>

using namespace heterplan;

TEST(Python, StringsCannotBecomeCode) {
  EXPECT_EQ(python::quote("conv1.weight"), "\"conv1.weight\"");
  EXPECT_EQ(python::quote("a\"\\\n\x01"), "\"a\\\"\\\\\\n\\x01\"");
  EXPECT_EQ(python::quote("größe"), "\"größe\"");
  EXPECT_EQ(python::quote("bad\xff"), "\"bad\\xff\"");
  EXPECT_EQ(python::quote(llvm::StringRef("a\0b", 3)), "\"a\\x00b\"");
  EXPECT_EQ(python::comment("x\n\"\"\"import os"), "x????import os");
  EXPECT_EQ(python::comment(std::string(1000, 'a')).size(), 120u);
}

TEST(Python, NumbersReadBackAsTheSame) {
  EXPECT_EQ(python::literal(0.5), "0.5");
  EXPECT_EQ(python::literal(2.0), "2.0");
  EXPECT_EQ(python::literal(-1.0), "(-1.0)");
  EXPECT_EQ(python::literal(-0.0), "(-0.0)");
  EXPECT_EQ(python::literal(1e-5f), "1e-05");
  EXPECT_EQ(python::literal(0.1f), "0.1");
  EXPECT_EQ(python::literal(0.1), "0.1");
  EXPECT_EQ(python::literal(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(python::literal(std::numeric_limits<double>::infinity()), "float(\"inf\")");
  EXPECT_EQ(python::literal(-std::numeric_limits<float>::infinity()), "(-float(\"inf\"))");
  EXPECT_EQ(python::literal(std::numeric_limits<float>::lowest()), "(-3.402823466e+38)");
  EXPECT_EQ(python::literal(std::numeric_limits<double>::quiet_NaN()), "float(\"nan\")");
  EXPECT_EQ(python::literal(int64_t(-3)), "(-3)");
}

TEST(Python, Tuples) {
  EXPECT_EQ(python::tuple(std::vector<std::string>{}), "()");
  EXPECT_EQ(python::tuple(std::vector<std::string>{"a"}), "(a,)");
  EXPECT_EQ(python::tuple(llvm::ArrayRef<int64_t>{1, -2}), "(1, -2)");
  EXPECT_EQ(python::compactTuple({2, 2}), "2");
  EXPECT_EQ(python::compactTuple({2, 1}), "(2, 1)");
}

TEST(Python, DimensionsInTermsOfTheBatch) {
  EXPECT_EQ(python::dimension({0, 7}, "n"), "7");
  EXPECT_EQ(python::dimension({1, 0}, "n"), "n");
  EXPECT_EQ(python::dimension({12, -1}, "n"), "12 * n - 1");
  EXPECT_EQ(python::shapeText({}), "scalar");
  EXPECT_EQ(python::shapeText({{1, 0}, {0, 3}}), "N x 3");
}

TEST(Python, LongStatementsAreBrokenAtBrackets) {
  EXPECT_EQ(python::statement(4, "a = f(b)", "N x 3"), "    a = f(b)  # N x 3\n");
  std::string name(60, 'x');
  std::string lines = python::statement(0, "a = f(" + name + ", " + name + ", \"b, c\")", "N");
  EXPECT_EQ(lines, "a = f(\n    " + name + ",\n    " + name + ",\n    \"b, c\",\n)  # N\n");
  EXPECT_EQ(python::statement(0, "a = " + name + name, "N"), "# N\na = " + name + name + "\n");
}

TEST(Python, IdentifiersAreValidAndUnique) {
  python::Identifiers identifiers;
  EXPECT_EQ(identifiers.make("/layer1/conv/Conv_output_0"), "layer1_conv_Conv");
  EXPECT_EQ(identifiers.make("495"), "t495");
  EXPECT_EQ(identifiers.make("input.1"), "input_1");
  EXPECT_EQ(identifiers.make("input_1"), "input_1_2");
  EXPECT_EQ(identifiers.make("lambda"), "t_lambda");
  EXPECT_EQ(identifiers.make("self"), "t_self");
  EXPECT_EQ(identifiers.make(""), "t");
  EXPECT_EQ(identifiers.make("\xff\xfe"), "t_2");
  EXPECT_EQ(identifiers.make("x); import os; ("), "x_import_os");
  EXPECT_EQ(identifiers.make("/model/bert/encoder/layer.0/attention/self/Mul_1"),
            "encoder_layer_0_attention_self_Mul_1"); // no half words
  EXPECT_LE(identifiers.make(std::string(10'000'000, 'a')).size(), 40u);
}

TEST(Python, ACommentStaysOneLine) {
  std::string path = "/wrapper/model/encoder(1)/layer\n[0]/" + std::string(90, 'x') + "/MatMul";
  std::string line = python::commentLine(8, path, " (linear)");
  EXPECT_EQ(line.size(), 101u) << line;
  EXPECT_EQ(line.find('\n'), 100u);
  EXPECT_EQ(line.substr(91), " (linear)\n");
  EXPECT_EQ(python::commentLine(0, "conv1", " (conv)"), "# conv1 (conv)\n");
}

namespace {
std::string syntaxError(llvm::StringRef text) { return python::findSyntaxError(text).value_or(""); }
} // namespace

TEST(Python, WhatIsNoPythonIsFound) {
  EXPECT_EQ(syntaxError("\"\"\"a\nb\"\"\"\ndef f(\n    a,\n):\n    # c\n    return a  # (\n"), "");
  EXPECT_EQ(syntaxError("def f():\n    # a\n        b\n"), "");
  EXPECT_EQ(syntaxError("x = 1\n    y = 2\n"),
            "line 2: a line is indented, but none before it opens a block");
  EXPECT_EQ(syntaxError("def f():\nx = 1\n"), "line 2: a block has no statement");
  EXPECT_EQ(syntaxError("def f():\n"), "line 2: a block has no statement");
  EXPECT_EQ(syntaxError("x = \"a\ny\"\n"), "line 1: a string does not close");
  EXPECT_EQ(syntaxError("x = \"a\\\""), "line 1: a string does not close");
  EXPECT_EQ(syntaxError("x = (1]\n"), "line 1: a bracket closes that is not open");
  EXPECT_EQ(syntaxError("x = (1\n"), "line 2: a bracket does not close");
  EXPECT_EQ(syntaxError("x = größe\n"), "line 1: a character stands outside of a string");
  EXPECT_EQ(syntaxError("x = " + std::string(300, '(') + std::string(300, ')') + "\n"),
            "line 1: brackets nest too deeply");
}
