#include "ir/onnx/read/InferredIdentity.h"

#include "ir/onnx/read/ExporterTraces.h"
#include "ir/onnx/read/Initializers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include "onnx/onnx_pb.h"

#include <cstring>

using namespace llvm;

namespace heterplan {

namespace {

/// Values that copies of merged initializers may take in all, where they lie in the file.
constexpr size_t copyLimit = size_t(256) << 20;

std::string andMore(ArrayRef<std::string> names) {
  return quotedName(names[0]) +
         (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "");
}

/// "blocks.0.norm" of a node of PyTorch: by the metadata of the newer exporter, by the name
/// "/blocks.0/norm/Mul_1" of the older one. Nothing where neither is there.
std::optional<std::string> moduleOf(const onnx::NodeProto &node) {
  std::string scopes = metadataOf(node, "pkg.torch.onnx.name_scopes");
  SmallVector<StringRef, 8> parts;
  StringRef(scopes).trim("[]").split(parts, ',');
  if (parts.size() >= 2)
    return parts[parts.size() - 2].trim(" '\"").str();
  StringRef name = node.name();
  if (!name.consume_front("/"))
    return std::nullopt;
  std::string module = name.contains('/') ? name.rsplit('/').first.str() : "";
  std::replace(module.begin(), module.end(), '/', '.');
  return module;
}

/// `name` with each number in it replaced by '#': clones of one module have equal ones.
std::string withoutNumbers(StringRef name) {
  std::string result;
  for (char c : name)
    if (!isDigit(c))
      result += c;
    else if (result.empty() || result.back() != '#')
      result += '#';
  return result;
}

/// Whether a name is that of a module's member, as PyTorch has them: "block.0.scale".
bool isMember(StringRef name) {
  return name.contains('.') && !name.contains("::") && !name.contains('/');
}

/// The name of operand `operand` in PyTorch's module of a normalisation; "" for other nodes.
std::string normMember(const onnx::NodeProto &node, int operand) {
  static const StringMap<int> members = {{"LayerNormalization", 3},
                                         {"InstanceNormalization", 3},
                                         {"GroupNormalization", 3},
                                         {"BatchNormalization", 5}};
  static const char *const names[] = {"", "weight", "bias", "running_mean", "running_var"};
  return operand < members.lookup(node.op_type()) ? names[operand] : "";
}

/// Whether operand `operand` of `node` is a vector of a layer, whatever its values.
bool isVectorOperand(const onnx::NodeProto &node, int operand) {
  return !normMember(node, operand).empty() ||
         ((node.op_type() == "Gemm" || node.op_type() == "Conv") && operand == 2);
}

/// Whether operand `operand` of `node` is the only one of its kind in a module: a module that has
/// two such uses is run twice.
bool isSoleWeight(const onnx::NodeProto &node, int operand) {
  static const StringSet<> layers = {"MatMul", "Gemm", "Conv", "ConvTranspose",
                                     "LSTM",   "GRU",  "RNN"};
  return isVectorOperand(node, operand) || layers.contains(node.op_type());
}

/// Whether operand `operand` of `node` is of a layer as a rule: a vector of it, or what scales and
/// shifts values, as the older exporter writes normalisations.
bool isLayerOperand(const onnx::NodeProto &node, int operand) {
  return isVectorOperand(node, operand) || node.op_type() == "Mul" || node.op_type() == "Add";
}

/// A member of a module: what may have been merged with others.
struct Member {
  std::string module, leaf; // "": not known what the module calls it
  bool operator==(const Member &) const = default;
};

class IdentityInference {
public:
  IdentityInference(Initializers &initializers, const IdentityOptions &options,
                    std::vector<std::string> &notes)
      : initializers(initializers), options(options), notes(notes) {}

  void run(const std::set<std::string> &listed, ArrayRef<std::string> read) {
    for (size_t i = 0; i < initializers.all.size(); ++i)
      if (isCandidate(static_cast<int>(i)))
        separate(static_cast<int>(i));
    tieCopies();
    if (!separated.empty())
      notes.push_back(std::to_string(copies) + " parameters that the file merges with others, as " +
                      "exporters do with equal initial values, are trained apart (" +
                      andMore(separated) + "); --tie overrules");
    if (!tied.empty())
      notes.push_back(std::to_string(tied.size()) + " copies of weights, " + andMore(tied) +
                      ", are trained as one with what they are copied from; --untie overrules");
    if (!merged.empty())
      notes.push_back(andMore(merged) +
                      ": one module reads it several times; exporters merge parameters that start "
                      "equal, so that it may stand for several, which are trained as one");
    std::vector<std::string> lost;
    for (const std::string &name : read)
      if (initializers.find(name) < 0)
        lost.push_back(name);
    if (!lost.empty())
      notes.push_back("the file does not have " + std::to_string(lost.size()) +
                      " parameters of the module, " + andMore(lost) +
                      ": the exporter computed with them, or left them out where they start at "
                      "zero, so that they are not trained; heterplan.export keeps them");
    std::vector<std::string> unread;
    for (const std::string &name : listed)
      if (initializers.find(name) < 0 && !is_contained(read, name))
        unread.push_back(name);
    if (!unread.empty())
      notes.push_back("the file lists " + std::to_string(unread.size()) +
                      " parameters that it does not have, " + andMore(unread) +
                      ": they are tied to others, without effect, or left out since they start at "
                      "zero");
  }

private:
  using Uses = std::vector<std::pair<int, int>>;

  Initializers &initializers;
  const IdentityOptions &options;
  std::vector<std::string> &notes;
  std::vector<std::string> separated, tied, merged;
  int copies = 0;
  size_t copied = 0;

  bool isUntied(StringRef name) const {
    return any_of(options.untie,
                  [&](const std::string &pattern) { return matchesPattern(name, pattern); });
  }

  bool isTied(const std::string &name) const {
    return any_of(options.tie, [&](const auto &group) { return is_contained(group, name); });
  }

  bool isCandidate(int index) const {
    const Initializer &each = initializers.all[index];
    return isFloating(each.type) && each.uses.size() > 1 && !each.elsewhere &&
           (each.count() > 1 || isMember(each.name)) && !isTied(each.name);
  }

  /// Whether all elements are equal; for vectors without values as well, since only those of equal
  /// elements are merged as a rule.
  bool isUniform(int index) {
    StringRef bytes = initializers.values(index);
    if (bytes.empty())
      return initializers.all[index].shape.size() <= 1;
    auto size = static_cast<size_t>(sizeOf(initializers.all[index].type));
    return size && bytes.drop_front(size) == bytes.drop_back(size);
  }

  /// Gives the uses of an initializer by another module an initializer of their own: all of them
  /// where its elements are equal, else those by clones of the first module.
  void separate(int index) {
    const Initializer each = initializers.all[index];
    SmallVector<std::pair<Member, Uses>, 4> members; // in the order of their first use
    for (auto use : each.uses) {
      const onnx::NodeProto &node = initializers.node(use.first);
      auto module = moduleOf(node);
      if (!module)
        return separateByNode(index);
      Member member{*module, normMember(node, use.second)};
      auto *known = find_if(members, [&](const auto &other) { return other.first == member; });
      if (known == members.end())
        known = members.insert(known, {member, {}});
      known->second.push_back(use);
    }
    bool ofLayers = all_of(each.uses, [&](auto use) {
      return isLayerOperand(initializers.node(use.first), use.second);
    });
    bool uniform = isUniform(index) && (ofLayers || isMember(each.name) || hasScopes(index));
    bool apart = isUntied(each.name) || uniform;
    if (uniform && any_of(members, [&](const auto &member) {
          return count_if(member.second, [&](auto use) {
                   return !isSoleWeight(initializers.node(use.first), use.second);
                 }) > 1;
        }))
      merged.push_back(each.name);
    const Member owner = ownerOf(each.name, members);
    const std::string leaf = leafOf(each.name, owner.module);
    // A parameter of an outer module is one, although clones inside read it.
    const bool isOuter =
        isMember(each.name) && !StringRef(each.name).startswith(owner.module + ".");
    for (const auto &[member, uses] : members)
      if (member != owner &&
          (apart || (!isOuter && withoutNumbers(member.module) == withoutNumbers(owner.module))))
        copy(index, member.module, member.leaf.empty() ? leaf : member.leaf, uses);
  }

  /// Whether the newer exporter wrote the file.
  bool hasScopes(int index) const {
    const onnx::NodeProto &node = initializers.node(initializers.all[index].uses[0].first);
    return !metadataOf(node, "pkg.torch.onnx.name_scopes").empty();
  }

  /// The member that the name says the initializer is.
  static Member ownerOf(StringRef name, ArrayRef<std::pair<Member, Uses>> members) {
    const Member *owner = nullptr;
    for (const auto &[member, uses] : members) {
      bool fits = name.startswith(member.module + ".") &&
                  (member.leaf.empty() || name == member.module + "." + member.leaf);
      if (fits && (!owner || member.module.size() > owner->module.size()))
        owner = &member;
    }
    return owner ? *owner : members[0].first;
  }

  /// The part of the name behind the module.
  static std::string leafOf(StringRef name, const std::string &owner) {
    if (!owner.empty() && name.consume_front(owner + "."))
      return name.str();
    return name.rsplit('.').second.empty() ? name.str() : name.rsplit('.').second.str();
  }

  /// Without scopes: uniform weights and biases of several layers.
  void separateByNode(int index) {
    const Initializer each = initializers.all[index];
    bool apart = isUntied(each.name);
    bool weights = all_of(each.uses, [&](auto use) {
      return isVectorOperand(initializers.node(use.first), use.second);
    });
    if (!apart && (!weights || each.shape.size() != 1 || !isUniform(index)))
      return;
    for (size_t i = 1; i < each.uses.size(); ++i)
      copy(index, "", each.name + "_" + std::to_string(i), {each.uses[i]});
  }

  void copy(int index, const std::string &module, const std::string &leaf, const Uses &uses) {
    const std::string wanted = module.empty() ? leaf : module + "." + leaf;
    copied += initializers.values(index).size();
    if (copied > copyLimit)
      return;
    std::string name = wanted;
    for (int i = 2; initializers.isTaken(name); ++i)
      name = wanted + "_" + std::to_string(i);
    initializers.separate(index, name, uses);
    ++copies;
    const std::string &from = initializers.all[index].name;
    if (separated.empty() || separated.back() != from)
      separated.push_back(from);
  }

  // -- copies of one tensor

  /// Equal for a matrix and its transpose.
  std::string keyOf(int index, StringRef bytes) const {
    const Initializer &each = initializers.all[index];
    auto size = static_cast<size_t>(sizeOf(each.type));
    SmallVector<int64_t, 4> shape = each.shape;
    if (shape.size() == 2 && shape[0] > shape[1])
      std::swap(shape[0], shape[1]);
    std::string key = std::to_string(static_cast<int>(each.type));
    for (int64_t dim : shape)
      key += "," + std::to_string(dim);
    return key + ":" + bytes.take_front(size).str() + bytes.take_back(size).str();
  }

  bool isTransposed(int first, int second) {
    const Initializer &a = initializers.all[first], &b = initializers.all[second];
    if (a.shape.size() != 2 || b.shape.size() != 2 || a.shape[0] != b.shape[1] ||
        a.shape[1] != b.shape[0])
      return false;
    auto size = static_cast<size_t>(sizeOf(a.type));
    auto rows = static_cast<size_t>(a.shape[0]), columns = static_cast<size_t>(a.shape[1]);
    StringRef left = initializers.values(first), right = initializers.values(second);
    for (size_t i = 0; i < rows; ++i)
      for (size_t k = 0; k < columns; ++k)
        if (std::memcmp(left.data() + (i * columns + k) * size,
                        right.data() + (k * rows + i) * size, size) != 0)
          return false;
    return true;
  }

  /// Matrices of two modules that are equal, or one the transpose of the other, are one weight;
  /// clones of a module are not, and neither is what has nothing but equal elements.
  void tieCopies() {
    std::map<std::string, std::vector<int>> equal;
    for (size_t i = 0; i < initializers.all.size(); ++i) {
      const Initializer &each = initializers.all[i];
      int index = static_cast<int>(i);
      if (!isFloating(each.type) || each.shape.size() < 2 || each.elsewhere || each.uses.empty() ||
          isUntied(each.name) || isTied(each.name))
        continue;
      StringRef bytes = initializers.values(index);
      if (!bytes.empty() && !isUniform(index))
        equal[keyOf(index, bytes)].push_back(index);
      initializers.release(); // a model may be larger than the memory
    }
    for (auto &[key, group] : equal)
      if (group.size() > 1)
        tieGroup(std::move(group));
  }

  /// Ties the members of `group`; tensors with names of modules are the originals.
  void tieGroup(std::vector<int> group) {
    std::stable_partition(group.begin(), group.end(),
                          [&](int index) { return isMember(initializers.all[index].name); });
    std::vector<int> originals;
    for (int index : group) {
      bool found = any_of(originals, [&](int original) { return tie(index, original); });
      if (!found)
        originals.push_back(index);
    }
  }

  /// Whether equal tensors belong to clones of one module. Names of the exporter say nothing: then
  /// the modules that read them decide.
  bool areClones(const Initializer &a, const Initializer &b) const {
    if (withoutNumbers(a.name) != withoutNumbers(b.name))
      return false;
    if (isMember(a.name) || isMember(b.name))
      return true;
    auto first = moduleOf(initializers.node(a.uses[0].first)),
         second = moduleOf(initializers.node(b.uses[0].first));
    return !first || !second || *first != *second;
  }

  bool tie(int copy, int original) {
    const Initializer &a = initializers.all[original], &b = initializers.all[copy];
    if (areClones(a, b))
      return false;
    bool same = a.shape == b.shape && initializers.values(copy) == initializers.values(original);
    if (!same && !isTransposed(original, copy))
      return false;
    initializers.replace(copy, original, !same);
    tied.push_back(b.name);
    return true;
  }
};

} // namespace

void inferIdentities(Initializers &initializers, const IdentityOptions &options,
                     const ExporterFacts &facts, std::vector<std::string> &notes) {
  IdentityInference(initializers, options, notes).run(facts.listed, facts.read);
}

} // namespace heterplan
