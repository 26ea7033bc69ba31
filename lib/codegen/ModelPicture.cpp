#include "codegen/ModelPicture.h"

#include "codegen/Html.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <vector>

using namespace llvm;
using namespace heterplan::html;

namespace heterplan {
namespace {
constexpr int mostLayers = 3000;
constexpr int box = 14, columnWidth = 20, rowHeight = 22, margin = 8;
constexpr int pageWidth = 1100; // narrower pictures are stretched to the page, to this at most

struct Cell {
  int column = 0, row = 0;
  int left() const { return margin + column * columnWidth; }
  int top() const { return margin + row * rowHeight; }
  int middle() const { return top() + box / 2; }
};

/// Columns by the longest way from the inputs; a layer takes the first free row of its column, from
/// that of its first producer on.
std::vector<Cell> arrange(const LayerGraph &model) {
  std::vector<Cell> cells(model.layers.size());
  std::vector<std::vector<const LayerTensor *>> made(model.layers.size()); // by producer
  for (const LayerTensor &tensor : model.tensors)
    made[tensor.producer].push_back(&tensor);
  std::vector<int> wanted(model.layers.size(), 0);
  std::vector<std::vector<bool>> taken;
  for (size_t layer = 0; layer < cells.size(); ++layer) { // tensors flow forward
    Cell &cell = cells[layer];
    taken.resize(std::max(taken.size(), size_t(cell.column) + 1));
    std::vector<bool> &rows = taken[cell.column];
    for (cell.row = wanted[layer]; cell.row < int(rows.size()) && rows[cell.row];)
      ++cell.row;
    rows.resize(std::max(rows.size(), size_t(cell.row) + 1));
    rows[cell.row] = true;
    for (const LayerTensor *tensor : made[layer])
      for (int consumer : tensor->consumers)
        if (cells[consumer].column <= cell.column) {
          cells[consumer].column = cell.column + 1;
          wanted[consumer] = cell.row;
        }
  }
  return cells;
}

/// From box to box; what passes over boxes of its row goes round below them.
std::string line(const Cell &from, const Cell &to) {
  int begin = from.left() + box, end = to.left(), low = std::max(from.middle(), to.middle());
  int reach = to.column - from.column;
  int dip =
      reach > 1 && from.row == to.row ? low + std::min(rowHeight / 2 + reach, rowHeight) : low;
  std::string path = "M" + std::to_string(begin) + " " + std::to_string(from.middle());
  if (dip == low)
    path += "L" + std::to_string(end) + " " + std::to_string(to.middle());
  else
    path += "C" + std::to_string(begin + box) + " " + std::to_string(dip) + " " +
            std::to_string(end - box) + " " + std::to_string(dip) + " " + std::to_string(end) +
            " " + std::to_string(to.middle());
  return path;
}

StringMap<int> stagesOf(const Plan &plan) {
  StringMap<int> stages;
  for (const Stage &stage : plan.stages)
    for (const std::string &layer : stage.layers)
      stages[layer] = stage.id;
  return stages;
}

std::string boxOf(const Layer &layer, const Cell &cell, const StringMap<int> &stages) {
  auto found = stages.find(layer.name);
  int stage = found == stages.end() ? -1 : found->second;
  std::string placed = stage < 0 ? "" : ", stage " + std::to_string(stage);
  return "<rect x=\"" + std::to_string(cell.left()) + "\" y=\"" + std::to_string(cell.top()) +
         "\" width=\"" + std::to_string(box) + "\" height=\"" + std::to_string(box) +
         "\" rx=\"3\" fill=\"" + (stage < 0 ? "gray" : stageColour(stage)) + "\">" +
         element("title", layer.name + " (" + nameOf(layer.kind) + placed + ")") + "</rect>\n";
}

std::string key(const Plan &plan) {
  std::string html = "<p class=\"note key\">";
  for (const Stage &stage : plan.stages)
    html += "<span style=\"background:" + stageColour(stage.id) + "\"></span>stage " +
            std::to_string(stage.id);
  return html + "</p>\n";
}
} // namespace

std::string stageColour(int stage) {
  constexpr int first = 208, apart = 137; // of the golden angle
  return "hsl(" + std::to_string((first + apart * stage) % 360) + ",45%,50%)";
}

std::string emitModelPicture(const LayerGraph &model, const Plan &plan) {
  if (model.layers.empty() || model.size() > mostLayers)
    return "";
  std::vector<Cell> cells = arrange(model);
  int width = 0, height = 0;
  std::string boxes, path;
  StringMap<int> stages = stagesOf(plan);
  for (size_t i = 0; i < cells.size(); ++i) {
    width = std::max(width, cells[i].left() + box + margin);
    height = std::max(height, cells[i].top() + rowHeight + box);
    boxes += boxOf(model.layers[i], cells[i], stages);
  }
  for (const LayerTensor &tensor : model.tensors)
    for (int consumer : tensor.consumers)
      path += line(cells[tensor.producer], cells[consumer]);
  std::string size = std::to_string(width) + (width > pageWidth ? "px" : "px;min-width:0");
  return "<div class=\"wide\">\n<svg role=\"img\" aria-label=\"the layers of the model by stage\" "
         "viewBox=\"0 0 " +
         std::to_string(width) + " " + std::to_string(height) + "\" style=\"width:" + size +
         "\">\n<path class=\"flow\" d=\"" + path + "\"/>\n" + boxes + "</svg>\n</div>\n" +
         key(plan);
}

} // namespace heterplan
