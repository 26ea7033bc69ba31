#include "ir/onnx/Batch.h"

#include "ir/onnx/TensorReader.h"

#include <set>

using namespace llvm;

namespace heterplan {

namespace {

class BatchFinder {
public:
  BatchFinder(const ModelFile &file, const ImportOptions &options) : file(file), options(options) {}

  Expected<Batch> run() {
    if (file.graph.inputs.empty())
      return Diagnostic(Diag::NoBatchDimension, file.at(""))
             << "the model has no inputs, so no batch";
    if (Error error = bindSymbols())
      return error;
    findSymbols();
    if (batchSymbols.empty() && !anonymous)
      findFixed();
    if (batchSymbols.empty() && !anonymous && !batch.asWritten)
      return Diagnostic(Diag::NoBatchDimension, file.at(""))
                 .note({}, "name the axis of the inputs that counts samples with --batch-dim")
             << "no axis " << axis() << " that could count samples is found in the inputs";
    return bind();
  }

private:
  const ModelFile &file;
  const ImportOptions &options;
  std::vector<std::vector<DeclaredDim>> dims;
  std::set<std::string> batchSymbols;
  bool anonymous = false; // a leading dimension that has neither value nor name
  Batch batch;

  int axis() const { return options.batchDim.value_or(0); }
  StringRef inputName(size_t index) const {
    return file.graph.tensors[file.graph.inputs[index]].name;
  }
  bool hasAxis(size_t input) const {
    return axis() >= 0 && axis() < static_cast<int>(dims[input].size());
  }

  Error bindSymbols() {
    dims = file.inputDims;
    std::set<std::string> seen;
    for (auto &shape : dims)
      for (DeclaredDim &dim : shape)
        if (auto bound = options.dims.find(dim.symbol);
            !dim.symbol.empty() && bound != options.dims.end()) {
          seen.insert(dim.symbol);
          dim.value = bound->second;
          dim.symbol.clear();
        }
    for (const auto &[name, value] : options.dims) {
      if (!seen.count(name))
        return Diagnostic(Diag::Usage, file.at("")).note({}, "symbolic are: " + symbols())
               << "no input has a dimension called '" << name << "'";
      if (value <= 0)
        return Diagnostic(Diag::Usage, file.at(""))
               << "dimension '" << name << "' must be positive, not " << value;
    }
    return Error::success();
  }

  std::string symbols() const {
    std::set<std::string> names;
    for (const auto &shape : file.inputDims)
      for (const DeclaredDim &dim : shape)
        if (!dim.symbol.empty() && names.size() < 10)
          names.insert(dim.symbol.substr(0, 60));
    std::string text;
    for (const std::string &name : names)
      text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
  }

  void findSymbols() {
    std::set<std::string> all;
    for (size_t i = 0; i < dims.size(); ++i) {
      for (const DeclaredDim &dim : dims[i])
        if (!dim.symbol.empty())
          all.insert(dim.symbol);
      if (!hasAxis(i) || dims[i][axis()].value)
        continue;
      if (dims[i][axis()].symbol.empty())
        anonymous = true;
      else
        batchSymbols.insert(dims[i][axis()].symbol);
    }
    if (batchSymbols.empty() && !anonymous && !options.batchDim && all.size() == 1)
      batchSymbols = all;
  }

  /// The leading dimension of the first input that has one.
  void findFixed() {
    for (size_t i = 0; i < dims.size(); ++i)
      if (hasAxis(i) && *dims[i][axis()].value > 0) {
        batch.asWritten = *dims[i][axis()].value;
        return;
      }
  }

  Expected<Batch> bind() {
    for (size_t i = 0; i < dims.size(); ++i) {
      Shape shape;
      SmallVector<int64_t, 4> sample;
      for (size_t a = 0; a < dims[i].size(); ++a) {
        auto dim = bindDim(i, a);
        if (!dim)
          return dim.takeError();
        shape.push_back(*dim);
        sample.push_back(dim->at(1));
      }
      if (auto count = checkedCount(sample, file.at(inputName(i))); !count)
        return count.takeError();
      batch.inputs.push_back(std::move(shape));
    }
    return std::move(batch);
  }

  Expected<Dim> bindDim(size_t input, size_t a) {
    const DeclaredDim &dim = dims[input][a];
    bool atAxis = static_cast<int>(a) == axis();
    if (!dim.symbol.empty() && batchSymbols.count(dim.symbol))
      return Dim{1, 0};
    if (!dim.value && dim.symbol.empty() && atAxis)
      return Dim{1, 0};
    if (dim.value && atAxis && batch.asWritten && *dim.value == batch.asWritten)
      return Dim{1, 0};
    if (dim.value)
      return Dim{0, *dim.value};
    std::string name = dim.symbol.empty() ? "axis " + std::to_string(a) : dim.symbol.substr(0, 60);
    std::string help = dim.symbol.empty() ? "give it a value or a name in the model"
                                          : "give it a value: --dim " + name + "=128";
    return Diagnostic(Diag::UnknownShape, file.at(inputName(input))).note({}, help)
           << "dimension '" << name << "' of input '" << inputName(input) << "' is not known";
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

Expected<Batch> findBatch(const ModelFile &file, const ImportOptions &options) {
  return BatchFinder(file, options).run();
}

} // namespace heterplan
