// Shapes that follow from values only: what the file declares is taken, and said to be taken.
#include "../Models.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

TEST(Declarations, AnOutputWhoseShapeIsFedHasTheDeclaredOne) {
  ImportOptions options;
  options.noBatch = true;
  Graph graph = imported(model("g (float[2, 6] x, int64[2] s) => (float[3, 4] y) {"
                               " y = Reshape(x, s) }"),
                         options);
  EXPECT_EQ(tensor(graph, "y").shape, shape({{0, 3}, {0, 4}}));
  EXPECT_TRUE(tensor(graph, "y").dynamic);
}

TEST(Declarations, SymbolsAreThoseOfInputs) {
  Graph graph = imported(model("g (float[N, 6] x, int64[2] s) => (float[N, 6] y) {"
                               " y = Reshape(x, s) }"));
  EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 6}}));
  EXPECT_EQ(failure(import(model("g (float[N, 6] x, int64[2] s) => (float[M, 6] y) {"
                                 " y = Reshape(x, s) }")))
                .code,
            Diag::UnknownShape);
}

TEST(Declarations, TheBatchAsWrittenGrows) {
  Graph graph = imported(model("g (float[2, 6] x, int64[2] s) => (float[2, 6] y) {"
                               " y = Reshape(x, s) }"));
  EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 6}}));
}

TEST(Declarations, WhatFollowsFromTheInputsIsNotOverruled) {
  Graph graph = imported(model("g (float[N, 6] x) => (float[7, 7] y) { y = Relu(x) }"));
  EXPECT_EQ(tensor(graph, "y").shape, shape({{1, 0}, {0, 6}}));
  EXPECT_FALSE(tensor(graph, "y").dynamic);
}

TEST(Declarations, AbsurdOnesAreRefused) {
  auto proto = model("g (float[N, 6] x, int64[2] s) => (float[3, 4] y) { y = Reshape(x, s) }");
  auto *dim = proto.mutable_graph()
                  ->mutable_output(0)
                  ->mutable_type()
                  ->mutable_tensor_type()
                  ->mutable_shape()
                  ->mutable_dim(0);
  for (int64_t value : {int64_t(-1), INT64_MAX}) {
    dim->set_dim_value(value);
    EXPECT_EQ(failure(import(proto)).code, Diag::AbsurdSize) << value;
  }
}

} // namespace
