// Robust figures of repeated measurements.
#pragma once

#include <vector>

namespace heterplan {

/// The middle one, or the mean of the two in the middle. `values` are not empty.
double median(std::vector<double> values);

/// The mean without the tenth at each end; of three or more, without one at least. A core that
/// others slow down half of the time has two speeds: a median would be one of them, and a step of
/// many layers meets both. `values` are not empty.
double trimmedMean(std::vector<double> values);

/// Relative half-width of the interval that holds the median of `values` with 95%, by order
/// statistics; with few values it is their whole range. `values` are not empty.
double spreadOf(std::vector<double> values);

} // namespace heterplan
