// Exporters that leave the weights out of the file (PyTorch's export_params=False) write them as
// inputs of the model. Taken as such they would be fed with every batch, and the model would have
// no parameters at all.
#pragma once

#include "ir/onnx/read/ModelFile.h"

namespace heterplan {

/// Makes initializers without values of the inputs of `file` that are weights: floating, of fixed
/// dimensions in a model that has symbolic ones, and used only where operators take weights. A note
/// of the graph says how many; another where such inputs stay because no dimension is symbolic.
void takeFedWeights(ModelFile &file);

} // namespace heterplan
