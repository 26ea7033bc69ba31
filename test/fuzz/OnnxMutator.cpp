// Mutates ONNX models as models, so that the fuzzer gets past the parser: fields are changed,
// dropped, repeated and exchanged, names and numbers are taken from elsewhere in the model or from
// a list of awkward ones, and whole nodes, attributes, subgraphs and functions move. Every other
// mutation is one of bytes, since files are cut off and damaged too.
#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif
#include "onnx/onnx_pb.h"

#include <google/protobuf/message.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int64_t numbers[] = {0,
                               1,
                               -1,
                               2,
                               3,
                               4,
                               5,
                               7,
                               8,
                               16,
                               17,
                               18,
                               20,
                               23,
                               64,
                               255,
                               65536,
                               int64_t(1) << 31,
                               int64_t(1) << 45,
                               int64_t(1) << 62,
                               std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min()};
constexpr const char *words[] = {
    "", "N", "batch", "2*N", "seq + 1", "ai.onnx", "com.microsoft", "axis", "axes", "perm", "body",
    "then_branch", "else_branch", "value", "to", "num_outputs", "kernel_shape", "pads", "equation",
    "bij,bjk->bik", "location", "../x", "If", "Loop", "Scan", "Constant", "ConstantOfShape",
    "Shape", "Reshape", "Expand", "Tile", "Range", "Concat", "Slice", "Split", "Gather", "GatherND",
    "ScatterElements", "Where", "MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", "MaxPool",
    "LSTM", "Resize", "Pad", "TopK", "NonZero", "OneHot", "ReduceSum", "Softmax",
    "LayerNormalization", "GroupNormalization", "RMSNormalization", "RotaryEmbedding", "Attention",
    "SkipLayerNormalization", "Col2Im", "CenterCropPad", "AffineGrid", "DeformConv",
    "SequenceConstruct", "SequenceAt", "SequenceMap", "SplitToSequence", "ConcatFromSequence",
    "Optional", "OptionalGetElement", "QuantizeLinear", "DequantizeLinear", "Dropout",
    "BatchNormalization",
    // names that could become code or break a line of it
    "a\nb", "\"\"\"", "\\", "x); import os; (", "lambda", "self", "a.b", "..",
    "\xc3\xa4\xe2\x80\xa8"};

/// All messages of a model and the places of their fields.
struct Parts {
  std::vector<Message *> messages;
  std::vector<std::string> strings;

  void collect(Message *message) {
    if (messages.size() > 100'000)
      return;
    messages.push_back(message);
    const Reflection *reflection = message->GetReflection();
    std::vector<const FieldDescriptor *> fields;
    reflection->ListFields(*message, &fields);
    for (const FieldDescriptor *field : fields)
      collect(message, reflection, field);
  }

private:
  void collect(Message *message, const Reflection *reflection, const FieldDescriptor *field) {
    bool repeated = field->is_repeated();
    int count = repeated ? reflection->FieldSize(*message, field) : 1;
    for (int i = 0; i < count; ++i)
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
        collect(repeated ? reflection->MutableRepeatedMessage(message, field, i)
                         : reflection->MutableMessage(message, field));
      else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING)
        strings.push_back(repeated ? reflection->GetRepeatedString(*message, field, i)
                                   : reflection->GetString(*message, field));
  }
};

class Mutator {
public:
  Mutator(onnx::ModelProto &model, unsigned seed) : random(seed) { parts.collect(&model); }

  void run() {
    if (pick(8) == 0)
      return rename();
    Message *message = parts.messages[pick(parts.messages.size())];
    const auto *descriptor = message->GetDescriptor();
    if (!descriptor->field_count())
      return;
    const FieldDescriptor *field =
        descriptor->field(static_cast<int>(pick(static_cast<size_t>(descriptor->field_count()))));
    if (field->is_repeated())
      mutateRepeated(message, field);
    else if (pick(8) == 0)
      message->GetReflection()->ClearField(message, field);
    else
      mutateSingle(message, field);
  }

private:
  std::mt19937 random;
  Parts parts;

  size_t pick(size_t count) { return random() % count; }
  int64_t number() {
    return pick(3) ? numbers[pick(std::size(numbers))] : static_cast<int64_t>(pick(12));
  }
  std::string word() {
    if (!parts.strings.empty() && pick(3))
      return parts.strings[pick(parts.strings.size())];
    return words[pick(std::size(words))];
  }

  /// A name becomes another one everywhere, so that the model stays whole; at times a long one.
  void rename() {
    if (parts.strings.empty())
      return;
    std::string from = parts.strings[pick(parts.strings.size())];
    std::string to = words[pick(std::size(words))] + std::to_string(pick(100));
    if (pick(4) == 0)
      to += std::string(pick(2000), 'x');
    for (Message *message : parts.messages)
      for (int i = 0; i < message->GetDescriptor()->field_count(); ++i)
        replace(message, message->GetDescriptor()->field(i), from, to);
  }

  static void replace(Message *message, const FieldDescriptor *field, const std::string &from,
                      const std::string &to) {
    const Reflection *reflection = message->GetReflection();
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING)
      return;
    if (!field->is_repeated()) {
      if (reflection->HasField(*message, field) && reflection->GetString(*message, field) == from)
        reflection->SetString(message, field, to);
      return;
    }
    for (int i = 0; i < reflection->FieldSize(*message, field); ++i)
      if (reflection->GetRepeatedString(*message, field, i) == from)
        reflection->SetRepeatedString(message, field, i, to);
  }

  /// Any message of the type of `field` that is in the model and not too large, or null.
  const Message *donor(const FieldDescriptor *field) {
    for (int attempt = 0; attempt < 30; ++attempt) {
      const Message *message = parts.messages[pick(parts.messages.size())];
      if (message->GetDescriptor() == field->message_type() && message->ByteSizeLong() < 4096)
        return message;
    }
    return nullptr;
  }

  void mutateRepeated(Message *message, const FieldDescriptor *field) {
    const Reflection *reflection = message->GetReflection();
    int count = reflection->FieldSize(*message, field);
    int at = count ? static_cast<int>(pick(static_cast<size_t>(count))) : 0;
    switch (pick(4)) {
    case 0:
      if (count > 1)
        reflection->SwapElements(message, field, at, count - 1);
      if (count)
        reflection->RemoveLast(message, field);
      return;
    case 1:
      if (count)
        reflection->SwapElements(message, field, at,
                                 static_cast<int>(pick(static_cast<size_t>(count))));
      return;
    default:
      add(message, reflection, field);
    }
  }

  void add(Message *message, const Reflection *reflection, const FieldDescriptor *field) {
    switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (const Message *from = donor(field)) {
        std::string bytes = from->SerializeAsString(); // it may hold `message`
        reflection->AddMessage(message, field)->ParseFromString(bytes);
      } else {
        reflection->AddMessage(message, field);
      }
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->AddString(message, field, word());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->AddInt64(message, field, number());
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->AddInt32(message, field, static_cast<int32_t>(number()));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->AddFloat(message, field, static_cast<float>(number()));
    default:
      return;
    }
  }

  void mutateSingle(Message *message, const FieldDescriptor *field) {
    const Reflection *reflection = message->GetReflection();
    switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (const Message *from = donor(field)) {
        std::string bytes = from->SerializeAsString();
        reflection->MutableMessage(message, field)->ParseFromString(bytes);
      } else {
        reflection->MutableMessage(message, field);
      }
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->SetString(message, field, word());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(message, field, number());
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(message, field, static_cast<int32_t>(number()));
    case FieldDescriptor::CPPTYPE_INT32: // the type of an element
      return reflection->SetInt32(message, field, static_cast<int32_t>(pick(24)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->SetFloat(message, field, static_cast<float>(number()));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(message, field, static_cast<int>(pick(16)));
    default:
      return;
    }
  }
};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  onnx::ModelProto model;
  if (seed % 2 || size > (1 << 16) || !model.ParseFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, maxSize);
  for (unsigned i = 0; i <= seed / 2 % 3; ++i)
    Mutator(model, seed + i).run();
  std::string bytes = model.SerializeAsString();
  if (bytes.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}
