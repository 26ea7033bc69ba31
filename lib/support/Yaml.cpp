#include "support/Yaml.h"

#include "support/Suggestion.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

#include <algorithm>
#include <memory>

using namespace llvm;

namespace heterplan {

namespace {
constexpr int deepestNesting = 16;

/// Walks LLVM's lazy parser once and copies what it finds.
class TreeBuilder {
public:
  TreeBuilder(StringRef text, StringRef path) : text(text), path(path) {
    lineStarts.push_back(0);
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n')
        lineStarts.push_back(i + 1);
    sources.setDiagHandler(keepFirst, this);
    stream = std::make_unique<yaml::Stream>(text, sources, /*ShowColors=*/false);
  }

  Expected<YamlNode> build() {
    YamlNode root;
    root.location = locate(text.begin());
    auto document = stream->begin();
    if (Error error = document == stream->end() ? problem("the file is empty")
                                                : build(document->getRoot(), 0, root))
      return error;
    if (root.kind == YamlNode::Kind::Null)
      return problem("the file is empty");
    if (++document != stream->end() && !stream->failed())
      return Diagnostic(Diag::Syntax, root.location) << "the file holds several documents; one is "
                                                        "read";
    if (stream->failed())
      return problem("not YAML");
    return root;
  }

private:
  static void keepFirst(const SMDiagnostic &diagnostic, void *self) {
    auto &builder = *static_cast<TreeBuilder *>(self);
    if (!builder.message.empty())
      return;
    builder.message = diagnostic.getMessage().str();
    builder.place = builder.locate(diagnostic.getLoc().getPointer());
  }

  Location locate(const char *pointer) const {
    Location location{path.str(), 1, 1, ""};
    if (pointer < text.begin() || pointer > text.end())
      return location;
    size_t offset = pointer - text.begin();
    auto next = std::upper_bound(lineStarts.begin(), lineStarts.end(), offset);
    location.line = next - lineStarts.begin();
    location.column = offset - *std::prev(next) + 1;
    return location;
  }

  /// LLVM says that a flow collection starts at its first token; the bracket is before that.
  const char *openingOf(const yaml::Node &node, const char *start) const {
    if ((!isa<yaml::MappingNode>(node) && !isa<yaml::SequenceNode>(node)) ||
        start <= text.begin() || start > text.end())
      return start;
    StringRef before = StringRef(text.begin(), start - text.begin()).rtrim(" \t\r\n");
    return before.endswith("{") || before.endswith("[") ? before.end() - 1 : start;
  }

  /// The complaint of the parser, or `otherwise`.
  Error problem(const char *otherwise) {
    if (message.empty())
      return Diagnostic(Diag::Syntax, {path.str(), 1, 1, ""}) << otherwise;
    return Diagnostic(Diag::Syntax, place) << "not YAML: " << message;
  }

  Error build(yaml::Node *node, int depth, YamlNode &result) {
    if (!node || stream->failed())
      return problem("not YAML");
    if (const char *start = node->getSourceRange().Start.getPointer())
      result.location = locate(openingOf(*node, start));
    if (isa<yaml::AliasNode>(node) || !node->getAnchor().empty() || !node->getRawTag().empty())
      return Diagnostic(Diag::Syntax, result.location)
             << "anchors, aliases and tags are not read; write the value out";
    if (depth > deepestNesting)
      return Diagnostic(Diag::Syntax, result.location)
             << "nested deeper than " << deepestNesting << " levels";
    if (auto *mapping = dyn_cast<yaml::MappingNode>(node))
      return buildMapping(*mapping, depth, result);
    if (auto *sequence = dyn_cast<yaml::SequenceNode>(node))
      return buildSequence(*sequence, depth, result);
    buildScalar(*node, result);
    return stream->failed() ? problem("not YAML") : Error::success();
  }

  void buildScalar(yaml::Node &node, YamlNode &result) {
    SmallString<64> storage;
    if (auto *scalar = dyn_cast<yaml::ScalarNode>(&node)) {
      result.kind = YamlNode::Kind::Scalar;
      result.text = scalar->getValue(storage).str();
      bool isPlain =
          !scalar->getRawValue().startswith("\"") && !scalar->getRawValue().startswith("'");
      if (isPlain) // LLVM keeps a line break before a closing bracket
        result.text = StringRef(result.text).rtrim().str();
      if (isPlain && (result.text == "null" || result.text == "~"))
        result.kind = YamlNode::Kind::Null;
    } else if (auto *block = dyn_cast<yaml::BlockScalarNode>(&node)) {
      result.kind = YamlNode::Kind::Scalar;
      result.text = block->getValue().str();
    }
  }

  Error buildSequence(yaml::SequenceNode &sequence, int depth, YamlNode &result) {
    result.kind = YamlNode::Kind::Sequence;
    for (yaml::Node &item : sequence) {
      result.items.emplace_back().location = result.location;
      if (Error error = build(&item, depth + 1, result.items.back()))
        return error;
    }
    return stream->failed() ? problem("not YAML") : Error::success();
  }

  Error buildMapping(yaml::MappingNode &mapping, int depth, YamlNode &result) {
    result.kind = YamlNode::Kind::Mapping;
    StringSet<> keys;
    for (yaml::KeyValueNode &pair : mapping) {
      YamlNode key;
      key.location = result.location;
      if (Error error = build(pair.getKey(), depth + 1, key))
        return error;
      if (key.kind != YamlNode::Kind::Scalar)
        return Diagnostic(Diag::Syntax, key.location) << "a key must be a name";
      if (!keys.insert(key.text).second)
        return Diagnostic(Diag::DuplicateName, key.location)
               << "the key '" << key.text << "' is here twice";
      YamlEntry &entry = result.entries.emplace_back();
      entry.key = key.text;
      entry.location = entry.value.location = key.location;
      if (Error error = build(pair.getValue(), depth + 1, entry.value))
        return error;
    }
    return stream->failed() ? problem("not YAML") : Error::success();
  }

  StringRef text, path;
  std::vector<size_t> lineStarts;
  SourceMgr sources;
  std::unique_ptr<yaml::Stream> stream;
  std::string message; // first complaint of the parser
  Location place;
};

std::vector<std::string> keysOf(ArrayRef<YamlField> fields) {
  std::vector<std::string> keys;
  for (const YamlField &field : fields)
    keys.push_back(std::string(field.key));
  return keys;
}
} // namespace

Expected<YamlNode> parseYaml(StringRef text, StringRef path, uint64_t limit) {
  if (text.size() > limit)
    return Diagnostic(Diag::FileTooLarge, {path.str(), 0, 0, ""})
           << "has " << text.size() << " bytes; at most " << int64_t(limit) << " are read";
  if (size_t zero = text.find('\0'); zero != StringRef::npos)
    return Diagnostic(Diag::Syntax,
                      {path.str(), unsigned(text.take_front(zero).count('\n') + 1), 1, ""})
           << "not a text file: it has a zero byte";
  return TreeBuilder(text, path).build();
}

Error readMapping(const YamlNode &node, StringRef what, ArrayRef<YamlField> fields) {
  if (node.kind != YamlNode::Kind::Mapping)
    return Diagnostic(Diag::WrongType, node.location)
               .note({}, "its keys are " + join(keysOf(fields), ", "))
           << what << " must be a mapping (key: value)";
  for (const YamlEntry &entry : node.entries) {
    auto field = std::find_if(fields.begin(), fields.end(),
                              [&](const YamlField &known) { return entry.key == known.key; });
    if (field == fields.end())
      return Diagnostic(Diag::UnknownField, entry.location)
                 .note({}, "accepted are " + join(keysOf(fields), ", "))
             << what << " has no key '" << entry.key << "'"
             << didYouMean(entry.key, keysOf(fields));
    if (Error error = field->read(entry.value))
      return error;
  }
  for (const YamlField &field : fields)
    if (field.presence == Presence::Required &&
        none_of(node.entries, [&](const YamlEntry &entry) { return entry.key == field.key; }))
      return Diagnostic(Diag::MissingField, node.location)
             << what << " lacks '" << field.key << "'";
  return Error::success();
}

} // namespace heterplan
