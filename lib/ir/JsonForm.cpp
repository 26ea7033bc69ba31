#include "ir/JsonForm.h"

#include "ir/FileForms.h"
#include "ir/Json.h"
#include "support/Suggestion.h"

#include "heterplan.pb.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ConvertUTF.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstring>

using namespace llvm;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace heterplan {

const char *const schemaVersion = "1.1";

namespace {
constexpr int knownMajor = 1, knownMinor = 1;
constexpr double largestNumber = 1e30, largestCount = 2147483647.0, largestWhole = 0x1p53;

enum class Age { Known, NewerMinor };

Expected<Age> checkVersion(const JsonSource &source, StringRef element, bool optional) {
  auto version = stringInJson(source.text, element);
  if (!version && optional)
    return Age::Known;
  if (!version)
    return Diagnostic(Diag::MissingField, source.at(element))
           << "no '" << element << "' that says of which version the file is, such as \""
           << schemaVersion << "\"";
  auto [majorText, minorText] = StringRef(*version).split('.');
  unsigned major = 0, minor = 0;
  if (majorText.getAsInteger(10, major) || minorText.getAsInteger(10, minor))
    return Diagnostic(Diag::WrongType, source.at(element))
           << "'" << *version << "' is not a version; write \"major.minor\", such as \""
           << schemaVersion << "\"";
  if (major != knownMajor)
    return Diagnostic(Diag::NewerVersion, source.at(element))
           << "the file has version " << *version << "; this program reads versions " << knownMajor
           << ".x";
  return minor > knownMinor ? Age::NewerMinor : Age::Known;
}

std::string child(const std::string &path, const FieldDescriptor &field, int index) {
  std::string result = path.empty() ? field.json_name() : path + "." + field.json_name();
  return index < 0 ? result : result + "[" + std::to_string(index) + "]";
}

/// Descends `descriptor` along the steps of Protobuf's "layers[0].shape[1]".
const Descriptor *messageAt(const Descriptor *descriptor, StringRef element) {
  while (!element.empty() && descriptor) {
    StringRef step;
    std::tie(step, element) = element.split('.');
    const FieldDescriptor *field =
        descriptor->FindFieldByName(step.take_until([](char c) { return c == '['; }).str());
    descriptor = field ? field->message_type() : nullptr;
  }
  return descriptor;
}

std::vector<std::string> fieldsOf(const Descriptor *descriptor) {
  std::vector<std::string> names;
  for (int i = 0; descriptor && i < descriptor->field_count(); ++i)
    names.push_back(descriptor->field(i)->json_name());
  return names;
}

/// "forward_flops" -> "forwardFlops": Protobuf names places by the schema, files by the mapping.
std::string camelCase(StringRef name) {
  std::string result;
  for (size_t i = 0; i < name.size(); ++i)
    if (name[i] == '_' && i + 1 < name.size())
      result += toUpper(name[++i]);
    else
      result += name[i];
  return result;
}

std::string expectedFor(StringRef protobufType) {
  return StringSwitch<std::string>(protobufType)
      .Case("TYPE_STRING", "a string in double quotes")
      .Case("TYPE_DOUBLE", "a number")
      .Case("TYPE_INT32", "a whole number up to 2147483647")
      .Case("TYPE_BOOL", "true or false")
      .Default("an object in braces");
}

/// Protobuf says "(layers[0]) nme: Cannot find field.", "(layers[0].forward_flops): invalid value
/// "x" for type TYPE_DOUBLE", and other things after a place or a place and a name.
Error translate(const JsonSource &source, const Message &message, StringRef text) {
  text = text.take_until([](char c) { return c == '\n'; });
  StringRef place, rest = text;
  if (text.startswith("("))
    std::tie(place, rest) = text.drop_front().split(')');
  std::string element = camelCase(place);
  if (rest.startswith(" ") || rest.contains("Cannot find field")) {
    StringRef name;
    std::tie(name, rest) = rest.ltrim().split(": ");
    element += (element.empty() ? "" : ".") + camelCase(name);
    if (rest.contains("Cannot find field")) {
      std::vector<std::string> fields = fieldsOf(messageAt(message.GetDescriptor(), place));
      return Diagnostic(Diag::UnknownField, source.at(element))
                 .note({}, "accepted are " + join(fields, ", "))
             << "unknown field '" << name << "'" << didYouMean(name, fields);
    }
  }
  rest.consume_front(": ");
  rest.consume_front("invalid value ");
  size_t type = rest.rfind(" for type ");
  if (type == StringRef::npos)
    return Diagnostic(Diag::WrongType, source.at(element)) << rest;
  return Diagnostic(Diag::WrongType, source.at(element))
         << rest.take_front(type) << " stands where "
         << expectedFor(rest.drop_front(type + strlen(" for type "))) << " is expected";
}

/// Checks what the options of heterplan.proto ask of a message, in depth.
class Checker {
public:
  explicit Checker(const JsonSource &source) : source(source) {}

  Error check(const Message &message, const std::string &path) {
    const Descriptor *descriptor = message.GetDescriptor();
    for (int i = 0; i < descriptor->field_count(); ++i)
      if (Error error = checkField(message, *descriptor->field(i), path))
        return error;
    return Error::success();
  }

private:
  Error checkField(const Message &message, const FieldDescriptor &field, const std::string &path) {
    const Reflection &fields = *message.GetReflection();
    if (field.is_repeated()) {
      int size = fields.FieldSize(message, &field);
      if (size == 0)
        return checkPresence(field, path);
      if (field.message_type())
        for (int i = 0; i < size; ++i)
          if (Error error =
                  check(fields.GetRepeatedMessage(message, &field, i), child(path, field, i)))
            return error;
      return checkNames(message, field, path);
    }
    if (!fields.HasField(message, &field))
      return checkPresence(field, path);
    if (field.message_type())
      return check(fields.GetMessage(message, &field), child(path, field, -1));
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE)
      return checkNumber(fields.GetDouble(message, &field), field, path);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32)
      return checkNumber(fields.GetInt32(message, &field), field, path);
    return Error::success();
  }

  Error checkPresence(const FieldDescriptor &field, const std::string &path) {
    if (!field.options().GetExtension(v1::required))
      return Error::success();
    if (isNumber(field) && isWritten(child(path, field, -1)))
      return Error::success();
    return Diagnostic(Diag::MissingField, source.at(path))
           << (path.empty() ? "the file" : path) << " has no '" << field.json_name()
           << "', or an empty one";
  }

  static bool isNumber(const FieldDescriptor &field) {
    return !field.is_repeated() && (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ||
                                    field.cpp_type() == FieldDescriptor::CPPTYPE_INT32);
  }

  bool isWritten(const std::string &element) {
    if (!zeros)
      zeros.emplace(source.text);
    return zeros->contain(element);
  }

  /// Lists of names that must not be empty must not hold empty names either; each number of a list
  /// is checked like one that stands alone.
  Error checkNames(const Message &message, const FieldDescriptor &field, const std::string &path) {
    const Reflection &fields = *message.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE)
      for (int i = 0; i < fields.FieldSize(message, &field); ++i)
        if (Error error = checkNumber(fields.GetRepeatedDouble(message, &field, i), field, path))
          return error;
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING ||
        !field.options().GetExtension(v1::required))
      return Error::success();
    for (int i = 0; i < fields.FieldSize(message, &field); ++i)
      if (fields.GetRepeatedString(message, &field, i).empty())
        return Diagnostic(Diag::MissingField, source.at(child(path, field, i))) << "empty name";
    return Error::success();
  }

  Error checkNumber(double number, const FieldDescriptor &field, const std::string &path) {
    const auto &options = field.options();
    bool isCount =
        options.GetExtension(v1::is_count) || field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
    bool isWhole = isCount || options.GetExtension(v1::is_whole);
    double most = isCount ? largestCount : isWhole ? largestWhole : largestNumber;
    double least = options.GetExtension(v1::may_be_negative) ? -most : 0;
    if (number >= least && number <= most && (!isWhole || number == std::trunc(number)))
      return Error::success();
    auto error = Diagnostic(Diag::OutOfRange, source.at(child(path, field, -1)))
                 << "'" << field.json_name() << "' is " << number << "; accepted are ";
    if (isWhole)
      return std::move(error) << "whole numbers from " << int64_t(least) << " to " << int64_t(most);
    return std::move(error) << "numbers from " << least << " to " << most;
  }

  const JsonSource &source;
  std::optional<JsonZeros> zeros; // made when first needed
};

/// Protobuf strings are UTF-8, names in ONNX files need not be.
void mendStrings(Message &message) {
  const Reflection &fields = *message.GetReflection();
  std::vector<const FieldDescriptor *> set;
  fields.ListFields(message, &set);
  auto mend = [](std::string text) {
    for (auto *byte = reinterpret_cast<const UTF8 *>(text.data()), *end = byte + text.size();
         !isLegalUTF8String(&byte, end);)
      text[byte++ - reinterpret_cast<const UTF8 *>(text.data())] = '?';
    return text;
  };
  for (const FieldDescriptor *field : set) {
    bool string = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    if (!string && !field->message_type())
      continue;
    if (!field->is_repeated() && string)
      fields.SetString(&message, field, mend(fields.GetString(message, field)));
    else if (!field->is_repeated())
      mendStrings(*fields.MutableMessage(&message, field));
    for (int i = 0; field->is_repeated() && i < fields.FieldSize(message, field); ++i)
      if (string)
        fields.SetRepeatedString(&message, field, i,
                                 mend(fields.GetRepeatedString(message, field, i)));
      else
        mendStrings(*fields.MutableRepeatedMessage(&message, field, i));
  }
}
} // namespace

Location JsonSource::at(const Twine &element) const {
  return locateInJson(text, path, element.str());
}

Error JsonSource::located(Error error) const {
  return handleErrors(std::move(error), [&](std::unique_ptr<DiagnosticError> diagnostic) -> Error {
    if (diagnostic->location.file.empty())
      diagnostic->location = at(diagnostic->location.element);
    return Error(std::move(diagnostic));
  });
}

Error parseMessage(const JsonSource &source, Message &message, StringRef versionElement,
                   bool versionOptional) {
  if (Error error = checkJson(source.text, source.path))
    return error;
  if (!source.text.ltrim().startswith("{"))
    return Diagnostic(Diag::WrongType, source.at("")) << "the file must be a JSON object";
  auto age = checkVersion(source, versionElement, versionOptional);
  if (!age)
    return age.takeError();
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = *age == Age::NewerMinor;
  auto status = google::protobuf::util::JsonStringToMessage(
      {source.text.data(), source.text.size()}, &message, options);
  if (!status.ok())
    return translate(source, message, {status.message().data(), status.message().size()});
  return Checker(source).check(message, "");
}

std::string printMessage(Message &message, Defaults defaults) {
  mendStrings(message);
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = defaults == Defaults::Printed;
  std::string text;
  auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  assert(status.ok() && "a valid message has a JSON form");
  (void)status;
  return text;
}

void NameReader::refuse(StringRef name, const std::string &accepted, const Twine &element) {
  if (first)
    return;
  first = Diagnostic(Diag::WrongType, source.at(element)).note({}, "accepted are " + accepted)
          << "'" << name << "' is not known here";
}

Error NameReader::take() {
  if (!first)
    return Error::success();
  return std::move(*first);
}

} // namespace heterplan
