#include "ir/onnx/read/StatedParameters.h"

#include "support/Diagnostic.h"

#include "onnx/onnx_pb.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>

using namespace llvm;

namespace heterplan {

namespace {
constexpr const char *parametersKey = "heterplan.parameters";
constexpr const char *versionKey = "heterplan.parameters.version";
constexpr const char *knownVersion = "1";

using Fields = google::protobuf::Map<std::string, google::protobuf::Value>;

const std::string *metadata(const onnx::ModelProto &model, StringRef key) {
  for (const auto &entry : model.metadata_props())
    if (entry.key() == key)
      return &entry.value();
  return nullptr;
}

/// Reads one entry and remembers what is wrong with it.
class EntryReader {
public:
  explicit EntryReader(const Fields &fields) : fields(fields) {}

  StatedParameter read() {
    StatedParameter result;
    result.module = text("module", false);
    std::string kind = text("kind", false);
    result.buffer = kind == "buffer";
    if (!result.buffer && kind != "parameter" && why.empty())
      why = "'kind' is '" + kind + "'; accepted are parameter and buffer";
    result.trained = truth("trained");
    result.tied = text("tied", true);
    result.hash = text("hash", true);
    readShape(result);
    readPadding(result);
    if (why.empty() && result.buffer && result.trained)
      why = "a buffer cannot be trained";
    return result;
  }

  std::string why; // "": nothing is wrong

private:
  const Fields &fields;

  const google::protobuf::Value *find(const char *name) {
    auto field = fields.find(name);
    if (field != fields.end())
      return &field->second;
    if (why.empty())
      why = "there is no '" + std::string(name) + "'";
    return nullptr;
  }

  std::string text(const char *name, bool mayBeNull) {
    const auto *value = find(name);
    if (!value || (mayBeNull && value->has_null_value()))
      return "";
    if (value->kind_case() == google::protobuf::Value::kStringValue)
      return value->string_value();
    if (why.empty())
      why = "'" + std::string(name) + "' is not a text";
    return "";
  }

  bool truth(const char *name) {
    const auto *value = find(name);
    bool isTruth = value && value->kind_case() == google::protobuf::Value::kBoolValue;
    if (value && !isTruth && why.empty())
      why = "'" + std::string(name) + "' is neither true nor false";
    return isTruth && value->bool_value();
  }

  /// Files of older versions do not have it.
  void readPadding(StatedParameter &result) {
    auto field = fields.find("padding");
    if (field == fields.end() || field->second.has_null_value())
      return;
    double row = field->second.number_value();
    bool isRow = field->second.kind_case() == google::protobuf::Value::kNumberValue &&
                 !result.shape.empty() && row >= 0 && row < static_cast<double>(result.shape[0]) &&
                 row == std::floor(row);
    if (isRow)
      result.padding = static_cast<int64_t>(row);
    else if (why.empty())
      why = "'padding' is not the number of a row";
  }

  void readShape(StatedParameter &result) {
    const auto *value = find("shape");
    if (!value)
      return;
    bool isList = value->kind_case() == google::protobuf::Value::kListValue;
    for (const auto &size : value->list_value().values()) {
      isList =
          isList && size.number_value() >= 0 && size.number_value() < 0x1p53 &&
          size.number_value() == static_cast<double>(static_cast<int64_t>(size.number_value()));
      result.shape.push_back(isList ? static_cast<int64_t>(size.number_value()) : 0);
    }
    if (!isList && why.empty())
      why = "'shape' is not a list of sizes";
  }
};
} // namespace

Expected<std::optional<StatedParameters>> statedParameters(const onnx::ModelProto &model,
                                                           StringRef path) {
  const std::string *text = metadata(model, parametersKey);
  if (!text)
    return std::nullopt;
  auto malformed = [&](const std::string &tensor, const Twine &why) {
    return Diagnostic(Diag::MalformedModel, {path.str(), 0, 0, tensor})
           << "the metadata '" << parametersKey << "' " << why.str();
  };
  const std::string *version = metadata(model, versionKey);
  if (version && *version != knownVersion)
    return Diagnostic(Diag::NewerVersion, {path.str(), 0, 0, versionKey})
           << "the metadata '" << parametersKey << "' have version " << *version
           << "; this program reads version " << knownVersion;
  google::protobuf::Struct object;
  auto status = google::protobuf::util::JsonStringToMessage(*text, &object);
  if (!status.ok())
    return malformed("", "are not a JSON object");
  StatedParameters result;
  for (const auto &[name, value] : object.fields()) {
    EntryReader reader(value.struct_value().fields());
    StatedParameter parameter = reader.read();
    if (!reader.why.empty())
      return malformed(name, "have an entry '" + name + "' that cannot be read: " + reader.why);
    result.emplace(name, std::move(parameter));
  }
  return result;
}

void setStatedParameters(onnx::ModelProto &model, const StatedParameters &stated) {
  google::protobuf::Struct object;
  for (const auto &[name, parameter] : stated) {
    Fields &fields = *(*object.mutable_fields())[name].mutable_struct_value()->mutable_fields();
    auto setText = [&](const char *key, const std::string &text) {
      if (text.empty())
        fields[key].set_null_value(google::protobuf::NULL_VALUE);
      else
        fields[key].set_string_value(text);
    };
    fields["module"].set_string_value(parameter.module);
    fields["kind"].set_string_value(parameter.buffer ? "buffer" : "parameter");
    fields["trained"].set_bool_value(parameter.trained);
    setText("tied", parameter.tied);
    setText("hash", parameter.hash);
    if (parameter.padding)
      fields["padding"].set_number_value(static_cast<double>(*parameter.padding));
    auto &shape = *fields["shape"].mutable_list_value();
    for (int64_t size : parameter.shape)
      shape.add_values()->set_number_value(static_cast<double>(size));
  }
  std::string text;
  auto status = google::protobuf::util::MessageToJsonString(object, &text);
  (void)status; // names and numbers always have a JSON form
  for (auto &entry : *model.mutable_metadata_props())
    if (entry.key() == parametersKey)
      entry.set_value(text);
}

} // namespace heterplan
