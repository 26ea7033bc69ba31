// Einsum: sizes by letter, with an ellipsis for leading axes that broadcast.
#include "ir/onnx/infer/InferenceSupport.h"

#include <cctype>
#include <map>

using namespace llvm;

namespace heterplan::inference {

namespace {

constexpr char ellipsis = '.';

/// The letters of a term, with one '.' for an ellipsis; fails on anything else.
Expected<std::string> lettersOf(const Inference &node, StringRef term) {
  std::string letters;
  while (!term.empty()) {
    if (term.consume_front("...")) {
      if (letters.find(ellipsis) != std::string::npos)
        return node.fail("a term of the equation has two ellipses");
      letters += ellipsis;
      continue;
    }
    char letter = term.front();
    term = term.drop_front();
    if (isalpha(static_cast<unsigned char>(letter)))
      letters += letter;
    else if (letter != ' ')
      return node.fail("the equation has a '" + std::string(1, letter) + "'");
  }
  return letters;
}

class Equation {
public:
  explicit Equation(const Inference &node) : node(node) {}

  Expected<Dims> result() {
    std::string text = node.text("equation", "");
    auto [left, right] = StringRef(text).split("->");
    SmallVector<StringRef, 4> terms;
    left.split(terms, ',');
    if (terms.size() != node.inputs.size())
      return node.fail("the equation has " + std::to_string(terms.size()) + " terms for " +
                       std::to_string(node.inputs.size()) + " operands");
    for (size_t i = 0; i < terms.size(); ++i)
      if (Error error = read(i, terms[i]))
        return error;
    auto letters = text.find("->") == std::string::npos ? Expected<std::string>(implied())
                                                        : lettersOf(node, right);
    if (!letters)
      return letters.takeError();
    return dimsOf(*letters);
  }

private:
  const Inference &node;
  std::map<char, int64_t> sizes;
  std::map<char, int> uses;
  Dims broadcastAxes; // those of ellipses
  bool hasEllipsis = false;

  Error read(size_t operand, StringRef term) {
    auto letters = lettersOf(node, term);
    if (!letters)
      return letters.takeError();
    Dims dims = node.dims(operand);
    bool open = letters->find(ellipsis) != std::string::npos;
    size_t named = letters->size() - open;
    if (open ? dims.size() < named : dims.size() != named)
      return node.fail("operand " + std::to_string(operand) + " has rank " +
                       std::to_string(dims.size()) + ", its term " + std::to_string(named) +
                       " letters");
    size_t axis = 0;
    for (char letter : *letters) {
      if (letter == ellipsis) {
        size_t count = dims.size() - named;
        if (Error error = widen(ArrayRef<int64_t>(dims).slice(axis, count)))
          return error;
        axis += count;
        continue;
      }
      if (Error error = use(letter, dims[axis++]))
        return error;
    }
    return Error::success();
  }

  Error widen(ArrayRef<int64_t> dims) {
    hasEllipsis = true;
    auto wider = broadcast(node, broadcastAxes, dims);
    if (!wider)
      return wider.takeError();
    broadcastAxes = std::move(*wider);
    return Error::success();
  }

  Error use(char letter, int64_t size) {
    ++uses[letter];
    auto [entry, inserted] = sizes.try_emplace(letter, size);
    if (!inserted && entry->second != size && entry->second != 1 && size != 1)
      return node.fail("index '" + std::string(1, letter) + "' has sizes " +
                       std::to_string(entry->second) + " and " + std::to_string(size));
    if (entry->second == 1)
      entry->second = size;
    return Error::success();
  }

  /// Without an arrow: what ellipses stand for, then the letters that occur once, by alphabet.
  std::string implied() const {
    std::string letters(hasEllipsis ? 1 : 0, ellipsis);
    for (const auto &[letter, count] : uses)
      if (count == 1)
        letters += letter;
    return letters;
  }

  Expected<Dims> dimsOf(StringRef letters) const {
    Dims dims;
    for (char letter : letters) {
      if (letter == ellipsis) {
        dims.append(broadcastAxes.begin(), broadcastAxes.end());
        continue;
      }
      auto found = sizes.find(letter);
      if (found == sizes.end())
        return node.fail("index '" + std::string(1, letter) + "' is in no operand");
      dims.push_back(found->second);
    }
    return dims;
  }
};

} // namespace

Error einsum(Inference &node) {
  auto dims = Equation(node).result();
  if (!dims)
    return dims.takeError();
  node.set(0, node.type(0), *dims);
  return Error::success();
}

} // namespace heterplan::inference
