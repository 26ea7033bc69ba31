// Types and shapes of the operators that libonnx leaves to us, and what they refuse.
#include "../Models.h"

#include "ir/onnx/infer/Inference.h"

using namespace heterplan;
using namespace heterplan::test;

namespace {

struct Operand {
  Operand(std::vector<int64_t> dims, DataType type = DataType::Float32) {
    this->type = {type, {dims.begin(), dims.end()}, true};
  }
  /// A constant of integers.
  static Operand values(std::vector<int64_t> values) {
    Operand operand({static_cast<int64_t>(values.size())}, DataType::Int64);
    operand.value = TensorData{DataType::Int64, operand.type.dims, ""};
    operand.value->bytes.assign(reinterpret_cast<const char *>(values.data()),
                                values.size() * sizeof(int64_t));
    return operand;
  }
  TensorType type;
  std::optional<TensorData> value;
};

using Attributes = std::map<std::string, Attribute>;
using Dims = std::vector<int64_t>;
Attribute list(std::vector<int64_t> values) { return values; }
Attribute number(int64_t value) { return value; }

/// The results of `op`, or the message of the diagnostic in `message`.
std::vector<TensorType> infer(const std::string &op, const std::vector<Operand> &operands,
                              Attributes attributes = {}, size_t outputs = 1,
                              std::string *message = nullptr, const std::string &domain = "") {
  GraphNode node;
  node.op = op;
  node.attributes = std::move(attributes);
  std::vector<KnownInput> inputs;
  for (const Operand &operand : operands)
    inputs.push_back({&operand.type, operand.value ? &*operand.value : nullptr});
  std::vector<TensorType> results(outputs);
  Location place;
  Inference inference(node, inputs, results, place);
  const InferenceRule *rule = findInference(domain, op);
  EXPECT_NE(rule, nullptr) << op;
  llvm::Error error = rule ? rule->infer(inference) : llvm::Error::success();
  std::string text = error ? toText(std::move(error)) : "";
  if (message)
    *message = text;
  else
    EXPECT_EQ(text, "") << op;
  return results;
}

Dims dims(const std::string &op, const std::vector<Operand> &operands, Attributes attributes = {}) {
  TensorType type = infer(op, operands, std::move(attributes))[0];
  EXPECT_TRUE(type.known) << op;
  return {type.dims.begin(), type.dims.end()};
}

std::string refusal(const std::string &op, const std::vector<Operand> &operands,
                    Attributes attributes = {}, size_t outputs = 1) {
  std::string message;
  infer(op, operands, std::move(attributes), outputs, &message);
  return message;
}

TEST(Inference, Einsum) {
  auto einsum = [](const char *equation) {
    return Attributes{{"equation", std::string(equation)}};
  };
  EXPECT_EQ(dims("Einsum", {{{2, 3}}, {{3, 4}}}, einsum("ij, jk -> ik")), (Dims{2, 4}));
  EXPECT_EQ(dims("Einsum", {{{5, 2, 3}}, {{3, 4}}}, einsum("...ij,jk->...ik")), (Dims{5, 2, 4}));
  EXPECT_EQ(dims("Einsum", {{{3, 2}}, {{2, 4}}}, einsum("bk,ka")), (Dims{4, 3}));
  EXPECT_EQ(dims("Einsum", {{{3, 3}}}, einsum("ii->i")), (Dims{3}));
  EXPECT_NE(refusal("Einsum", {{{3, 2}}}, einsum("ii->i")), "");
  EXPECT_NE(refusal("Einsum", {{{3, 2}}}, einsum("ij->k")), "");
  EXPECT_NE(refusal("Einsum", {{{3, 2}}}, einsum("ijk->i")), "");
  EXPECT_NE(refusal("Einsum", {{{3, 2}}}, einsum("i+j->i")), "");
  EXPECT_NE(refusal("Einsum", {{{3, 2}}}, einsum("......->")), "");
}

TEST(Inference, ResizeByScalesSizesAndPolicies) {
  Operand image({1, 3, 4, 6});
  Operand none = Operand::values({});
  auto sizes = [&](std::vector<int64_t> values, Attributes attributes) {
    return dims("Resize", {image, none, none, Operand::values(values)}, std::move(attributes));
  };
  EXPECT_EQ(sizes({1, 3, 8, 9}, {}), (Dims{1, 3, 8, 9}));
  EXPECT_EQ(sizes({9, 8}, {{"axes", list({3, -2})}}), (Dims{1, 3, 8, 9}));
  Attributes keep = {{"axes", list({2, 3})},
                     {"keep_aspect_ratio_policy", std::string("not_larger")}};
  EXPECT_EQ(sizes({8, 9}, keep), (Dims{1, 3, 6, 9}));
  keep["keep_aspect_ratio_policy"] = std::string("not_smaller");
  EXPECT_EQ(sizes({8, 9}, keep), (Dims{1, 3, 8, 12}));
  EXPECT_NE(refusal("Resize", {image, none, none, Operand::values({1, 2})}), "");
}

TEST(Inference, WindowsThatStartBehindTheInputAreLeftOut) {
  Attributes pool = {
      {"kernel_shape", list({1, 1})}, {"strides", list({2, 2})}, {"ceil_mode", number(1)}};
  EXPECT_EQ(dims("MaxPool", {{{1, 1, 2, 2}}}, pool), (Dims{1, 1, 1, 1}));
  Attributes dilated = {{"kernel_shape", list({2, 2})}, {"dilations", list({2, 2})}};
  EXPECT_EQ(dims("AveragePool", {{{1, 1, 4, 4}}}, dilated), (Dims{1, 1, 2, 2}));
  EXPECT_NE(refusal("MaxPool", {{{1, 1, 2, 2}}}, {{"kernel_shape", list({3, 3})}}), "");
  EXPECT_NE(refusal("MaxPool", {{{1, 1, 2, 2}}}, {{"kernel_shape", list({1})}}), "");
  EXPECT_NE(refusal("MaxPool", {{{1, 1, 2, 2}}}, {{"kernel_shape", list({0, 1})}}), "");
}

TEST(Inference, AttentionWithPastAndGroups) {
  std::vector<TensorType> types =
      infer("Attention",
            {{{2, 3, 32}}, {{2, 5, 16}}, {{2, 5, 8}}, {{3, 9}}, {{2, 2, 4, 8}}, {{2, 2, 4, 4}}},
            {{"q_num_heads", number(4)}, {"kv_num_heads", number(2)}}, 4);
  auto of = [&](size_t i) { return Dims(types[i].dims.begin(), types[i].dims.end()); };
  EXPECT_EQ(of(0), (Dims{2, 3, 16}));
  EXPECT_EQ(of(1), (Dims{2, 2, 9, 8}));
  EXPECT_EQ(of(2), (Dims{2, 2, 9, 4}));
  EXPECT_EQ(of(3), (Dims{2, 4, 3, 9}));
  EXPECT_NE(refusal("Attention", {{{2, 3, 32}}, {{2, 5, 16}}, {{2, 5, 8}}}), "");
  EXPECT_NE(refusal("Attention", {{{2, 4, 3, 8}}, {{2, 3, 5, 8}}, {{2, 3, 5, 8}}}), "");
  EXPECT_NE(refusal("Attention", {{{2, 4, 3, 8}}, {{2, 4, 5, 8}}, {{2, 4, 5, 8}}, {{4, 5}}}), "");
}

TEST(Inference, TransformsAndImages) {
  EXPECT_EQ(dims("DFT", {{{2, 16, 1}}}, {{"onesided", number(1)}}), (Dims{2, 9, 2}));
  EXPECT_EQ(dims("Col2Im", {{{1, 5, 5}}, Operand::values({5, 5}), Operand::values({1, 5})}),
            (Dims{1, 1, 5, 5}));
  EXPECT_EQ(dims("AffineGrid", {{{2, 2, 3}}, Operand::values({2, 3, 5, 6})}), (Dims{2, 5, 6, 2}));
  EXPECT_EQ(dims("GridSample", {{{2, 3, 5, 6}}, {{2, 7, 8, 2}}}), (Dims{2, 3, 7, 8}));
  EXPECT_EQ(dims("DeformConv", {{{1, 2, 5, 5}}, {{4, 2, 3, 3}}, {{1, 18, 3, 3}}}),
            (Dims{1, 4, 3, 3}));
  EXPECT_EQ(
      dims("CenterCropPad", {{{20, 8, 3}}, Operand::values({10, 9})}, {{"axes", list({0, 1})}}),
      (Dims{10, 9, 3}));
}

TEST(Inference, PadsByAxes) {
  EXPECT_EQ(
      dims("Pad", {{{2, 3, 4}}, Operand::values({1, 0, 1, 0}), {{}}, Operand::values({1, 2})}),
      (Dims{2, 5, 4}));
  EXPECT_NE(refusal("Pad", {{{2, 3}}, Operand::values({-5, 0, 0, 0})}), "");
  EXPECT_NE(refusal("Pad", {{{2, 3}}, Operand::values({1, 0, 0})}), "");
  EXPECT_NE(refusal("Pad", {{{2}}, Operand::values({INT64_MIN, INT64_MIN})}), "");
}

TEST(Inference, ShapesThatDependOnValuesStayUnknown) {
  Operand axes({1}, DataType::Int64);
  for (const char *op : {"ReduceSum", "Pad", "CenterCropPad"}) {
    TensorType type = infer(op, {{{2, 3}}, axes})[0];
    EXPECT_FALSE(type.known) << op;
    EXPECT_EQ(type.type, DataType::Float32) << op;
  }
}

TEST(Inference, OneHotHasAnAxisAsLongAsTheDepth) {
  EXPECT_EQ(dims("OneHot", {{{2, 3}}, Operand::values({5}), {{2}}}, {{"axis", number(1)}}),
            (Dims{2, 5, 3}));
  EXPECT_EQ(dims("OneHot", {{{2, 3}}, Operand::values({5}), {{2}}}), (Dims{2, 3, 5}));
  EXPECT_FALSE(infer("OneHot", {{{2, 3}}, {{}, DataType::Int64}, {{2}}})[0].known);
  EXPECT_NE(refusal("OneHot", {{{2}}, Operand::values({-1}), {{2}}}), "");
  EXPECT_NE(refusal("OneHot", {{{2}}, Operand::values({5}), {{2}}}, {{"axis", number(2)}}), "");
}

TEST(Inference, ElementTypes) {
  EXPECT_EQ(infer("Cast", {{{2}}}, {{"to", number(17)}})[0].type, DataType::Float8E4M3FN);
  EXPECT_NE(refusal("Cast", {{{2}}}, {{"to", number(99)}}), "");
  EXPECT_EQ(infer("QuantizeLinear", {{{2}}, {{}}})[0].type, DataType::UInt8);
  EXPECT_EQ(infer("QuantizeLinear", {{{2}}, {{}}}, {{"output_dtype", number(22)}})[0].type,
            DataType::Int4);
  EXPECT_EQ(infer("IsNaN", {{{2}, DataType::Float8E5M2}})[0].type, DataType::Bool);
}

TEST(Inference, Convolutions) {
  Attributes wide = {{"strides", list({2, 1})}, {"pads", list({1, 0, 0, 2})}};
  EXPECT_EQ(dims("Conv", {{{2, 4, 8, 5}}, {{6, 4, 3, 3}}}, wide), (Dims{2, 6, 4, 5}));
  EXPECT_EQ(dims("Conv", {{{2, 4, 9}}, {{6, 2, 3}}}, {{"group", number(2)}}), (Dims{2, 6, 7}));
  EXPECT_EQ(dims("ConvTranspose", {{{2, 6, 4, 5}}, {{6, 4, 3, 3}}}, wide), (Dims{2, 4, 8, 5}));
  EXPECT_EQ(dims("ConvTranspose", {{{1, 6, 4}}, {{6, 2, 3}}},
                 {{"group", number(2)}, {"strides", list({3})}, {"output_padding", list({1})}}),
            (Dims{1, 4, 13}));
  EXPECT_EQ(dims("ConvTranspose", {{{1, 6, 4}}, {{6, 2, 3}}}, {{"output_shape", list({7})}}),
            (Dims{1, 2, 7}));
  EXPECT_EQ(dims("ConvTranspose", {{{1, 6, 4}}, {{6, 2, 3}}},
                 {{"auto_pad", std::string("SAME_UPPER")}, {"strides", list({2})}}),
            (Dims{1, 2, 8}));
  EXPECT_EQ(infer("ConvInteger", {{{1, 1, 3}}, {{1, 1, 2}}})[0].type, DataType::Int32);
  Operand bytes({1, 1, 3}, DataType::UInt8), scale({}), zero({}, DataType::UInt8);
  Operand result({}, DataType::Int8);
  TensorType type =
      infer("QLinearConv", {bytes, scale, zero, bytes, scale, zero, scale, result})[0];
  EXPECT_EQ(type.type, DataType::Int8);
  EXPECT_EQ(Dims(type.dims.begin(), type.dims.end()), (Dims{1, 1, 1}));
}

TEST(Inference, ConvolutionsThatDoNotFitTheirWeights) {
  for (const char *op : {"Conv", "ConvTranspose", "ConvInteger", "DeformConv"}) {
    EXPECT_NE(refusal(op, {{{1, 1, 3}}, {{1, 2}}}), "") << op;
    EXPECT_NE(refusal(op, {{{1, 3}}, {{1, 2, 3}}}), "") << op;
    EXPECT_NE(refusal(op, {{std::vector<int64_t>()}, {std::vector<int64_t>()}}), "") << op;
    EXPECT_NE(refusal(op, {{{1, 2, 3}}, {{3, 3, 3}}}), "") << op;
    for (const char *name : {"kernel_shape", "strides", "dilations", "pads"})
      EXPECT_NE(refusal(op, {{{1, 1, 3}}, {{1, 1, 2}}}, {{name, list({1, 1, 1})}}), "")
          << op << name;
    EXPECT_NE(refusal(op, {{{1, 1, 3}}, {{1, 1, 2}}}, {{"strides", list({0})}}), "") << op;
    EXPECT_NE(refusal(op, {{{1, 1, 3}}, {{1, 1, 2}}}, {{"group", number(-1)}}), "") << op;
  }
  for (const char *name : {"output_padding", "output_shape"})
    EXPECT_NE(refusal("ConvTranspose", {{{1, 1, 3}}, {{1, 1, 2}}}, {{name, list({1, 1})}}), "");
}

TEST(Inference, PoolingIsUndone) {
  Attributes pool = {{"kernel_shape", list({2, 2})}, {"strides", list({2, 2})}};
  Operand halves({1, 3, 2, 2}), indices({1, 3, 2, 2}, DataType::Int64);
  EXPECT_EQ(dims("MaxUnpool", {halves, indices}, pool), (Dims{1, 3, 4, 4}));
  EXPECT_EQ(dims("MaxUnpool", {halves, indices, Operand::values({1, 3, 5, 5})}, pool),
            (Dims{1, 3, 5, 5}));
  EXPECT_NE(refusal("MaxUnpool", {halves, indices, Operand::values({5, 5})}, pool), "");
  EXPECT_NE(refusal("MaxUnpool", {halves, {{1}}}, pool), "");
  EXPECT_NE(refusal("MaxUnpool", {halves, indices}, {{"kernel_shape", list({2})}}), "");
}

TEST(Inference, RegionsAndBlocks) {
  Operand image({2, 12, 4, 6}), regions({5, 5});
  EXPECT_EQ(dims("MaxRoiPool", {image, regions}, {{"pooled_shape", list({2, 3})}}),
            (Dims{5, 12, 2, 3}));
  EXPECT_NE(refusal("MaxRoiPool", {image, regions}, {{"pooled_shape", list({2})}}), "");
  EXPECT_NE(refusal("MaxRoiPool", {{{2, 3}}, regions}, {{"pooled_shape", list({})}}), "");
  Attributes two = {{"blocksize", number(2)}};
  EXPECT_EQ(dims("DepthToSpace", {image}, two), (Dims{2, 3, 8, 12}));
  EXPECT_EQ(dims("SpaceToDepth", {image}, two), (Dims{2, 48, 2, 3}));
  for (const char *op : {"DepthToSpace", "SpaceToDepth"}) {
    EXPECT_NE(refusal(op, {{{2, 12, 4}}}, two), "");
    for (int64_t block : {int64_t(0), int64_t(-2), int64_t(5), int64_t(1) << 32, INT64_MAX})
      EXPECT_NE(refusal(op, {image}, {{"blocksize", number(block)}}), "") << op << block;
  }
}

TEST(Inference, FramesOfASignal) {
  Operand signal({2, 128, 1}), step = Operand::values({8}), window({16});
  EXPECT_EQ(dims("STFT", {signal, step, window}), (Dims{2, 15, 9, 2}));
  EXPECT_EQ(dims("STFT", {signal, step, window, Operand::values({16})}, {{"onesided", number(0)}}),
            (Dims{2, 15, 16, 2}));
  EXPECT_NE(refusal("STFT", {{{2}}, step, window}), "");
  EXPECT_NE(refusal("STFT", {signal, step}), "");
  EXPECT_NE(refusal("STFT", {signal, Operand::values({0}), window}), "");
  EXPECT_NE(refusal("STFT", {signal, step, {{2, 8}}}), "");
  EXPECT_NE(refusal("STFT", {signal, step, window, Operand::values({8})}), "");
  EXPECT_NE(refusal("STFT", {signal, step, {{256}}}), "");
}

TEST(Inference, SlicesByIndex) {
  Operand data({2, 3, 4, 5});
  EXPECT_EQ(dims("GatherND", {data, {{7, 2}}}), (Dims{7, 4, 5}));
  EXPECT_EQ(dims("GatherND", {data, {{2, 7, 2}}}, {{"batch_dims", number(1)}}), (Dims{2, 7, 5}));
  for (int64_t batch : {int64_t(-1), int64_t(2), INT64_MIN, INT64_MAX})
    EXPECT_NE(refusal("GatherND", {data, {{7, 2}}}, {{"batch_dims", number(batch)}}), "") << batch;
  EXPECT_NE(refusal("GatherND", {data, {{7, 5}}}), "");
  EXPECT_NE(refusal("GatherND", {data, {{7, 0}}}), "");
  EXPECT_NE(refusal("GatherND", {data, {std::vector<int64_t>()}}), "");
}

TEST(Inference, ShapesOfAnyLength) {
  EXPECT_EQ(dims("Expand", {{{3, 1}}, Operand::values({2, 1, 5})}), (Dims{2, 3, 5}));
  EXPECT_NE(refusal("Expand", {{{3, 1}}, Operand::values({2, 5})}), "");
  EXPECT_EQ(dims("ConstantOfShape", {Operand::values({2, 0})}), (Dims{2, 0}));
  TensorData half{DataType::Float16, {1}, std::string(2, '\0')};
  Operand huge({int64_t(1) << 31}, DataType::Int64);
  TensorType type = infer("ConstantOfShape", {huge}, {{"value", half}})[0];
  EXPECT_EQ(type.type, DataType::Float16);
  EXPECT_FALSE(type.known);
  EXPECT_FALSE(infer("Expand", {{{3, 1}}, huge})[0].known);
}

TEST(Inference, MeanAndDeviationOfALayer) {
  std::vector<TensorType> types = infer("LayerNormalization", {{{2, 3, 4}}, {{3, 4}}},
                                        {{"axis", number(-2)}, {"stash_type", number(11)}}, 3);
  auto of = [&](size_t i) { return Dims(types[i].dims.begin(), types[i].dims.end()); };
  EXPECT_EQ(of(0), (Dims{2, 3, 4}));
  EXPECT_EQ(of(1), (Dims{2, 1, 1}));
  EXPECT_EQ(of(2), (Dims{2, 1, 1}));
  EXPECT_EQ(types[2].type, DataType::Float64);
  for (int64_t axis : {int64_t(-4), int64_t(3), INT64_MIN})
    EXPECT_NE(refusal("LayerNormalization", {{{2, 3, 4}}, {{4}}}, {{"axis", number(axis)}}), "");
  EXPECT_NE(refusal("LayerNormalization", {{{2}}, {{2}}}, {{"stash_type", number(99)}}), "");
}

} // namespace
