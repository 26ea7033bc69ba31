#include "ir/onnx/batch/Batch.h"

#include "ir/onnx/batch/BatchNames.h"
#include "ir/onnx/infer/DimExpression.h"
#include "ir/onnx/read/TensorReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <set>
#include <tuple>

using namespace llvm;

namespace heterplan {

namespace {

constexpr size_t mostNames = 10; // of one message

std::string clipped(StringRef name) { return name.take_front(60).str(); }

std::string quoted(const std::set<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "'" : ", '") + clipped(name) + "'";
  return text;
}

class BatchFinder {
public:
  BatchFinder(const ModelFile &file, const ImportOptions &options) : file(file), options(options) {}

  Expected<std::vector<Batch>> run() {
    if (file.graph.inputs.empty() && !options.noBatch)
      return Diagnostic(Diag::NoBatchDimension, file.at(""))
             << "the model has no inputs, so no batch";
    bindGiven();
    collectSymbols();
    if (Error error = checkOptions())
      return error;
    if (!options.noBatch)
      chooseSymbols();
    std::vector<int64_t> written{0};
    if (options.noBatch)
      notes.push_back("no axis counts samples: one run of the model is taken to be one sample");
    else if (chosen.empty() && !anonymous)
      written = fixedBatches();
    if (written.empty())
      return Diagnostic(Diag::NoBatchDimension, file.at(""))
                 .note({},
                       "name the axis of the inputs that counts samples with --batch-dim, or none")
             << "no axis " << options.batchDim.value_or(0)
             << " that could count samples is found in the inputs";
    std::vector<Batch> result;
    for (int64_t size : written) {
      auto batch = bind(size);
      if (!batch)
        return batch.takeError();
      if (size)
        batch->notes.push_back("the model is written for a batch of " + std::to_string(size) +
                               "; axis " + std::to_string(options.batchDim.value_or(0)) +
                               " of its inputs is taken to count samples");
      result.push_back(std::move(*batch));
    }
    return result;
  }

private:
  const ModelFile &file;
  const ImportOptions &options;
  std::vector<std::vector<DeclaredDim>> dims;
  std::set<std::string> all, leading, elsewhere; // symbols without a value, by place
  std::set<std::string> chosen;                  // symbols that count samples
  bool anonymous = false; // a leading dimension that has neither value nor name
  std::vector<std::string> notes;

  StringRef inputName(size_t index) const {
    return file.graph.tensors[file.graph.inputs[index]].name;
  }

  /// The axis that counts samples, or -1.
  int axisOf(size_t input) const {
    if (options.noBatch)
      return -1;
    auto own = options.inputBatchDims.find(inputName(input).str());
    int axis = own != options.inputBatchDims.end() ? own->second : options.batchDim.value_or(0);
    return axis < static_cast<int>(dims[input].size()) ? axis : -1;
  }

  /// How an option names a dimension that has no name.
  std::string placeName(size_t input, size_t axis) const {
    return clipped(inputName(input)) + "." + std::to_string(axis);
  }

  std::optional<Dim> given(StringRef name) const {
    auto found = options.dims.find(name.str());
    return found == options.dims.end() ? std::nullopt : std::optional<Dim>(Dim{0, found->second});
  }

  void bindGiven() {
    dims = file.inputDims;
    for (size_t i = 0; i < dims.size(); ++i)
      for (size_t a = 0; a < dims[i].size(); ++a) {
        DeclaredDim &dim = dims[i][a];
        if (dim.value)
          continue;
        auto value = dim.symbol.empty()
                         ? given(placeName(i, a))
                         : evaluateDim(dim.symbol, [&](StringRef name) { return given(name); });
        if (value) {
          dim.value = value->fixed;
          dim.symbol.clear();
        }
      }
  }

  void collectSymbols() {
    for (size_t i = 0; i < dims.size(); ++i)
      for (size_t a = 0; a < dims[i].size(); ++a) {
        const DeclaredDim &dim = dims[i][a];
        if (dim.value)
          continue;
        bool leads = static_cast<int>(a) == axisOf(i);
        anonymous = anonymous || (leads && dim.symbol.empty());
        if (dim.symbol.empty())
          continue;
        for (const std::string &symbol : symbolsOf(dim.symbol)) {
          all.insert(symbol);
          if (symbol == dim.symbol)
            (leads ? leading : elsewhere).insert(symbol);
        }
      }
  }

  Error checkOptions() {
    std::set<std::string> known = declaredNames();
    for (const auto &[name, value] : options.dims) {
      if (!known.count(name))
        return Diagnostic(Diag::Usage, file.at("")).note({}, "symbolic are: " + listed(known))
               << "no input has a dimension called '" << name << "'";
      if (value < 0)
        return Diagnostic(Diag::Usage, file.at(""))
               << "dimension '" << name << "' must not be negative, as " << value << " is";
    }
    if (!options.batchSymbol.empty() && !all.count(options.batchSymbol))
      return Diagnostic(Diag::Usage, file.at("")).note({}, "symbolic are: " + listed(known))
             << "no input has a dimension called '" << options.batchSymbol
             << "', which would count samples";
    for (const auto &[name, axis] : options.inputBatchDims)
      if (none_of(file.graph.inputs, [&, &wanted = name](TensorId id) {
            return file.graph.tensors[id].name == wanted;
          }))
        return Diagnostic(Diag::Usage, file.at(""))
               << "the model has no input called '" << name << "'";
    return Error::success();
  }

  /// Every name that --dim may give a value.
  std::set<std::string> declaredNames() const {
    std::set<std::string> names;
    for (size_t i = 0; i < file.inputDims.size(); ++i)
      for (size_t a = 0; a < file.inputDims[i].size(); ++a) {
        const DeclaredDim &dim = file.inputDims[i][a];
        if (dim.value)
          continue;
        names.insert(dim.symbol.empty() ? placeName(i, a) : dim.symbol);
        if (!dim.symbol.empty())
          for (std::string &symbol : symbolsOf(dim.symbol))
            names.insert(std::move(symbol));
      }
    return names;
  }

  static std::string listed(const std::set<std::string> &names) {
    std::vector<std::string> texts;
    for (const std::string &name : names)
      if (texts.size() < mostNames)
        texts.push_back(clipped(name));
    return texts.empty() ? "none" : llvm::join(texts, ", ");
  }

  template <typename Test>
  static std::set<std::string> only(const std::set<std::string> &names, Test test) {
    std::set<std::string> result;
    std::copy_if(names.begin(), names.end(), std::inserter(result, result.end()), test);
    return result;
  }

  void chooseSymbols() {
    if (!options.batchSymbol.empty()) {
      chosen = {options.batchSymbol};
      anonymous = false;
      return;
    }
    chosen = leading;
    if (options.batchDim)
      return;
    auto apart = only(leading, [&](const std::string &name) { return !elsewhere.count(name); });
    if (!apart.empty())
      chosen = apart;
    if (auto named = only(chosen, soundsLikeBatch); !named.empty())
      chosen = named;
    else if (!anonymous && all_of(chosen, soundsLikeLength))
      chooseBehind();
    if (chosen.size() > 1)
      notes.push_back("the dimensions " + quoted(chosen) + " are taken to be one batch");
  }

  /// Nothing leads but lengths, if anything: a symbol that is called like a batch, else the only
  /// one, unless it looks as if a batch of one had been exported.
  void chooseBehind() {
    auto named = only(elsewhere, soundsLikeBatch);
    if (named.size() == 1)
      chosen = named;
    if (!chosen.empty() || all.size() != 1 || soundsLikeLength(*all.begin()))
      return;
    if (!any_of(dims, [&](const auto &shape) { return shape.size() > 1 && shape[0].value == 1; }))
      chosen = all;
  }

  /// The numbers that lead, most plausible first: of most inputs that are not vectors, not the size
  /// of other axes as well, above one.
  std::vector<int64_t> fixedBatches() const {
    struct Rank {
      bool elsewhere = false;
      int64_t matrices = 0, vectors = 0;
    };
    std::vector<int64_t> order;
    std::map<int64_t, Rank> ranks;
    for (size_t i = 0; i < dims.size(); ++i)
      if (int axis = axisOf(i); axis >= 0 && isSize(dims[i][axis].value.value_or(0))) {
        Rank &rank = ranks[*dims[i][axis].value];
        if (!rank.matrices && !rank.vectors)
          order.push_back(*dims[i][axis].value);
        ++(dims[i].size() > 1 ? rank.matrices : rank.vectors);
      }
    for (size_t i = 0; i < dims.size(); ++i)
      for (size_t a = 0; a < dims[i].size(); ++a)
        if (auto found = ranks.find(dims[i][a].value.value_or(0));
            found != ranks.end() && static_cast<int>(a) != axisOf(i))
          found->second.elsewhere = true;
    auto key = [&](int64_t size) {
      const Rank &rank = ranks[size];
      return std::make_tuple(rank.elsewhere, -rank.matrices, -rank.vectors, size == 1);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return key(a) < key(b); });
    order.resize(std::min(order.size(), mostCandidates));
    return order;
  }
  static constexpr size_t mostCandidates = 3;
  static bool isSize(int64_t number) { return number > 0 && number <= maxElements; }

  Expected<Batch> bind(int64_t asWritten) {
    Batch batch;
    batch.asWritten = asWritten;
    batch.notes = notes;
    std::vector<std::string> open; // dimensions without a value
    size_t place = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      batch.inputs.emplace_back();
      for (size_t a = 0; a < dims[i].size(); ++a) {
        size_t before = open.size();
        batch.inputs.back().push_back(bindDim(i, a, asWritten, open));
        place = before == 0 && !open.empty() ? i : place;
      }
    }
    if (!open.empty())
      return unknown(open, place);
    for (size_t i = 0; i < dims.size(); ++i) {
      SmallVector<int64_t, 4> sample;
      for (const Dim &dim : batch.inputs[i])
        sample.push_back(dim.at(1));
      if (auto count = checkedCount(sample, file.at(inputName(i))); !count)
        return count.takeError();
    }
    return batch;
  }

  Dim bindDim(size_t input, size_t a, int64_t asWritten, std::vector<std::string> &open) const {
    const DeclaredDim &dim = dims[input][a];
    bool counts = static_cast<int>(a) == axisOf(input);
    if (dim.value) {
      // Lengths of sequences are a vector, whatever the axis of the sequences themselves.
      bool lengths = axisOf(input) < 0 && dims[input].size() == 1 && asWritten > 1;
      return (counts || lengths) && asWritten && *dim.value == asWritten ? Dim{1, 0}
                                                                         : Dim{0, *dim.value};
    }
    if (dim.symbol.empty() && counts)
      return Dim{1, 0};
    auto valueOf = [&](StringRef name) {
      return chosen.count(name.str()) ? std::optional<Dim>(Dim{1, 0}) : given(name);
    };
    if (dim.symbol.empty())
      addOnce(open, placeName(input, a));
    else if (auto value = evaluateDim(dim.symbol, valueOf))
      return *value;
    else
      addOpen(open, dim.symbol, valueOf);
    return {};
  }

  /// There may be many: only those that a message names are told apart.
  static void addOnce(std::vector<std::string> &names, const std::string &name) {
    if (names.size() < mostNames && !is_contained(names, name))
      names.push_back(name);
  }

  /// The symbols of `text` that have no value; `text` itself where each has one, but not the whole.
  template <typename ValueOf>
  static void addOpen(std::vector<std::string> &open, const std::string &text, ValueOf valueOf) {
    bool any = false;
    for (const std::string &symbol : symbolsOf(text))
      if (!valueOf(symbol)) {
        addOnce(open, symbol);
        any = true;
      }
    if (!any)
      addOnce(open, text);
  }

  Error unknown(ArrayRef<std::string> open, size_t input) const {
    std::string help = "give it a value:";
    for (const std::string &name : open.take_front(mostNames))
      help += StringRef(name).contains(' ') ? " --dim '" + clipped(name) + "=128'"
                                            : " --dim " + clipped(name) + "=128";
    std::string batch = anonymous ? "the leading dimension" : quoted(chosen);
    return Diagnostic(Diag::UnknownShape, file.at(inputName(input)))
               .note({}, help)
               .note({}, chosen.empty() && !anonymous
                             ? "if it counts samples: --batch-dim " + clipped(open[0])
                             : batch + " counts samples; --batch-dim says otherwise")
           << "dimension '" << clipped(open[0]) << "' of input '" << inputName(input)
           << "' is not known";
  }
};

} // namespace

std::vector<SmallVector<int64_t, 4>> Batch::at(int64_t size) const {
  std::vector<SmallVector<int64_t, 4>> result;
  for (const Shape &shape : inputs) {
    result.emplace_back();
    for (const Dim &dim : shape)
      result.back().push_back(dim.at(size));
  }
  return result;
}

Expected<std::vector<Batch>> findBatches(const ModelFile &file, const ImportOptions &options) {
  return BatchFinder(file, options).run();
}

} // namespace heterplan
