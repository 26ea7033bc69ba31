#include "ir/onnx/read/Scopes.h"

#include "onnx/onnx_pb.h"

using namespace llvm;

namespace heterplan {

void Scopes::enter(const onnx::GraphProto &graph) {
  open.push_back({&graph, 0, {}, {}});
  for (int i = 0; i < graph.node_size(); ++i)
    for (const std::string &output : graph.node(i).output())
      open.back().producers.try_emplace(output, i);
}

/// Names outside of bodies stay as they are; two bodies may use one name for different tensors.
std::string Scopes::uniqueTensorName(StringRef name) {
  if (!inBody())
    return name.str();
  std::string result = name.str();
  while (open[0].tensors.count(result) || open[0].producers.count(result) ||
         !bodyNames.try_emplace(result, 1).second)
    result = name.str() + "_" + std::to_string(++bodyNames[name]);
  return result;
}

Expected<TensorId> Scopes::define(StringRef name, StringRef what) {
  if (name.empty())
    return Diagnostic(Diag::MalformedModel, file.at(what)) << "a tensor has no name";
  TensorId id = static_cast<TensorId>(graph.tensors.size());
  if (Error error = alias(name, id))
    return error;
  graph.tensors.emplace_back();
  graph.tensors.back().name = uniqueTensorName(name);
  return id;
}

Error Scopes::alias(StringRef name, TensorId id) {
  if (!open.back().tensors.try_emplace(name, id).second)
    return Diagnostic(Diag::DuplicateName, file.at(name))
           << "tensor '" << name.take_front(100) << "' is defined twice";
  return Error::success();
}

TensorId Scopes::find(StringRef name) const {
  for (size_t level = open.size(); level-- > 0;)
    if (auto found = open[level].tensors.find(name); found != open[level].tensors.end())
      return found->second;
  return noTensor;
}

/// Whether node `node` depends on the one that `scope` stands at.
bool Scopes::depends(const Scope &scope, int node) {
  std::vector<bool> seen(scope.graph->node_size());
  std::vector<int> work{node};
  while (!work.empty()) {
    int current = work.back();
    work.pop_back();
    if (current == scope.node)
      return true;
    if (seen[current])
      continue;
    seen[current] = true;
    for (const std::string &name : scope.graph->node(current).input())
      if (auto producer = scope.producers.find(name); producer != scope.producers.end())
        work.push_back(producer->second);
  }
  return false;
}

Error Scopes::missing(StringRef name, const GraphNode &node) const {
  std::string shown = name.take_front(100).str();
  for (size_t level = open.size(); level-- > 0;) {
    auto producer = open[level].producers.find(name);
    if (producer == open[level].producers.end())
      continue;
    if (depends(open[level], producer->second))
      return Diagnostic(Diag::CyclicGraph, file.at(node.name))
             << "operator '" << node.op << "' depends on its own result through '" << shown << "'";
    return Diagnostic(Diag::MalformedModel, file.at(node.name))
           << "reads '" << shown << "', which a later node produces; nodes must be in order";
  }
  return Diagnostic(Diag::MalformedModel, file.at(node.name))
         << "reads '" << shown << "', which nothing produces";
}

std::string Scopes::uniqueNodeName(const std::string &wanted) {
  std::string name = wanted;
  while (!nodeNames.try_emplace(name, 2).second)
    name = wanted + "_" + std::to_string(nodeNames[wanted]++);
  return name;
}

} // namespace heterplan
