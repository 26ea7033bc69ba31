#include "search/verify/bound/NodeRuns.h"

namespace heterplan {

NodeRuns::NodeRuns(const std::vector<double> &parts, int wholeNode) : wholeNode(size_t(wholeNode)) {
  constexpr double rounding = 1e-9;
  for (double part : parts) {
    const bool fits = !units.empty() && part <= 1 + rounding;
    const size_t own = fits ? size_t(part * wholeNode + rounding) : this->wholeNode + 1;
    const size_t places = own < this->wholeNode ? this->wholeNode - own + 1 : 1;
    firsts.push_back(choices.size());
    choices.insert(choices.end(), places, int(units.size()));
    units.push_back(own);
  }
  firsts.push_back(choices.size());
}

} // namespace heterplan
