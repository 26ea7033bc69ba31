#include "ir/onnx/read/ParameterIdentity.h"

#include "ir/onnx/read/ExporterTraces.h"
#include "ir/onnx/read/InferredIdentity.h"
#include "ir/onnx/read/Initializers.h"
#include "support/Diagnostic.h"
#include "support/Files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include "onnx/onnx_pb.h"

#include <cstring>

using namespace llvm;

namespace heterplan {

namespace {

/// Bytes of a tensor whose values are compared with the hash that the file states.
constexpr int64_t largestHashed = int64_t(16) << 20;

/// Follows what the file states.
class Statement {
public:
  Statement(onnx::ModelProto &model, StringRef path, Initializers &initializers,
            StatedParameters &stated)
      : model(model), path(path), initializers(initializers), stated(stated) {}

  Error apply() {
    for (const auto &[name, parameter] : stated)
      if (Error error = check(name, parameter))
        return error;
    return tie();
  }

private:
  onnx::ModelProto &model;
  StringRef path;
  Initializers &initializers;
  StatedParameters &stated;

  Diagnostic contradiction(const std::string &name) const {
    return Diagnostic(Diag::MalformedModel, {path.str(), 0, 0, name})
        .note({}, "a program has changed the file after heterplan.export wrote it; plan the file "
                  "that heterplan.export writes");
  }

  Error check(const std::string &name, const StatedParameter &parameter) {
    int index = initializers.find(name);
    if (index < 0 && isInput(name))
      return Error::success();
    if (index < 0)
      return contradiction(name) << "the metadata state a " << kindOf(parameter) << " "
                                 << quotedName(name) << ", which the file does not have";
    const Initializer &found = initializers.all[index];
    if (found.shape != parameter.shape)
      return contradiction(name) << "the metadata state another shape of " << quotedName(name)
                                 << " than the file has";
    if (parameter.hash.empty() || storedBytes(found.type, found.count()) > largestHashed)
      return Error::success();
    StringRef values = initializers.values(index);
    if (!values.empty() && sha256(values) != parameter.hash)
      return contradiction(name) << "the metadata state other values of " << quotedName(name)
                                 << " than the file has";
    return Error::success();
  }

  static const char *kindOf(const StatedParameter &parameter) {
    return parameter.buffer ? "buffer" : "parameter";
  }

  bool isInput(const std::string &name) const {
    return any_of(model.graph().input(), [&](const auto &input) { return input.name() == name; });
  }

  /// Keeps the first tensor of each group that the file has.
  Error tie() {
    std::map<std::string, int> first;
    std::vector<std::string> dropped;
    for (size_t i = 0; i < initializers.all.size(); ++i) {
      auto parameter = stated.find(initializers.all[i].name);
      if (parameter == stated.end() || parameter->second.tied.empty())
        continue;
      auto [entry, isNew] = first.try_emplace(parameter->second.tied, static_cast<int>(i));
      if (isNew)
        continue;
      const Initializer &original = initializers.all[entry->second], &copy = initializers.all[i];
      bool transposed = copy.shape.size() == 2 && copy.shape[0] == original.shape.back() &&
                        original.shape.size() == 2 && copy.shape[1] == original.shape[0];
      if (copy.shape != original.shape && !transposed)
        return contradiction(copy.name) << "the metadata tie " << quotedName(copy.name) << " to "
                                        << quotedName(original.name) << ", which has another shape";
      initializers.replace(static_cast<int>(i), entry->second, copy.shape != original.shape);
      dropped.push_back(copy.name);
    }
    for (const std::string &name : dropped)
      stated.erase(name);
    return Error::success();
  }
};

Error usage(const char *option, const Twine &why) {
  return Diagnostic(Diag::Usage, {"", 0, 0, option}) << why.str();
}

Error tieStated(Initializers &initializers, const IdentityOptions &options) {
  for (const auto &group : options.tie) {
    int original = initializers.find(group[0]);
    for (const std::string &name : group) {
      int copy = initializers.find(name);
      if (copy < 0)
        return usage("--tie", "the model has no parameter '" + name + "'");
      const Initializer &a = initializers.all[original], &b = initializers.all[copy];
      bool transposed = a.shape.size() == 2 && b.shape.size() == 2 && a.shape[0] == b.shape[1] &&
                        a.shape[1] == b.shape[0];
      if (a.type != b.type || (a.shape != b.shape && !transposed))
        return usage("--tie", "'" + group[0] + "' and '" + name + "' differ in type or shape");
      if (copy != original)
        initializers.replace(copy, original, a.shape != b.shape);
    }
  }
  return Error::success();
}

Error checkUntied(const Initializers &initializers, const IdentityOptions &options) {
  for (const std::string &pattern : options.untie)
    if (none_of(initializers.all,
                [&](const Initializer &each) { return matchesPattern(each.name, pattern); }))
      return usage("--untie", "no parameter of the model is called '" + pattern + "'");
  return Error::success();
}

} // namespace

bool matchesPattern(StringRef text, StringRef pattern) {
  size_t star = pattern.find('*');
  if (star == StringRef::npos)
    return text == pattern;
  if (!text.consume_front(pattern.take_front(star)))
    return false;
  pattern = pattern.drop_front(star + 1);
  for (size_t skip = 0; skip <= text.size(); ++skip)
    if (matchesPattern(text.drop_front(skip), pattern))
      return true;
  return false;
}

Expected<ParameterIdentities> identifyParameters(onnx::ModelProto &model, StringRef path,
                                                 const IdentityOptions &options,
                                                 std::vector<std::string> &notes) {
  ParameterIdentities result;
  auto stated = statedParameters(model, path);
  if (!stated)
    return stated.takeError();
  result.stated = std::move(*stated);
  Initializers initializers(model, path);
  if (Error error = checkUntied(initializers, options))
    return error;
  if (result.stated) {
    if (!options.tie.empty() || !options.untie.empty())
      return usage(options.tie.empty() ? "--untie" : "--tie",
                   "the file states which parameters are one: change the module, and export it "
                   "again");
    if (Error error = Statement(model, path, initializers, *result.stated).apply())
      return error;
    for (const auto &[name, parameter] : *result.stated)
      if (parameter.module != name && !parameter.module.empty())
        result.modules[name] = parameter.module;
  } else {
    if (Error error = tieStated(initializers, options))
      return error;
    const auto listed = listedParameters(model);
    for (const auto &[placeholder, name] : listed)
      result.listed.insert(name);
    inferIdentities(initializers, options, {result.listed, parametersRead(model, listed)}, notes);
  }
  initializers.finish();
  return result;
}

} // namespace heterplan
