// The picture of a model: a box a layer, coloured by the stage that it is in.
#pragma once

#include "ir/LayerGraph.h"
#include "ir/Plan.h"

#include <string>

namespace heterplan {

/// The colour of a stage in pictures, as CSS writes one; neighbours are far apart.
std::string stageColour(int stage);

/// An SVG element: layers from left to right by the longest way to them, branches below each other,
/// lines for what flows. Each box has its name, kind and stage as a tooltip. "" for a model of more
/// than a few thousand layers.
std::string emitModelPicture(const LayerGraph &model, const Plan &plan);

} // namespace heterplan
