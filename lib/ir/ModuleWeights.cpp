#include "ir/ModuleWeights.h"

using namespace llvm;

namespace heterplan {

ArrayRef<int> gatesOfModule(StringRef op) {
  static constexpr int lstm[] = {0, 3, 1, 2}, gru[] = {1, 0, 2}, rnn[] = {0};
  if (op == "LSTM")
    return lstm;
  if (op == "GRU")
    return gru;
  return op == "RNN" ? ArrayRef<int>(rnn) : ArrayRef<int>();
}

} // namespace heterplan
