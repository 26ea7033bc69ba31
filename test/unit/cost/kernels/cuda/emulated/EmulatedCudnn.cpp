// As cuDNN's manual has them: two axes of windows, values row by row.
#include "EmulatedLibraries.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace heterplan::kernels::cuda {
namespace {
constexpr int refused = 3; // CUDNN_STATUS_BAD_PARAM of version 8

/// Any descriptor: cuDNN's are of different types, whose fields do not overlap here.
struct Described {
  std::vector<int> dims, padding, strides, dilations;
  int groups = 1, math = 0, mode = 0;
};

Described &of(Handle handle) { return *static_cast<Described *>(handle); }
const float *in(const void *memory) { return static_cast<const float *>(memory); }
float *out(void *memory) { return static_cast<float *>(memory); }

int create(Handle *handle) { return *handle = new Described, 0; }
int destroy(Handle handle) { return delete &of(handle), 0; }

int setTensor(Handle handle, int type, int axes, const int *dims, const int *strides) {
  of(handle).dims.assign(dims, dims + axes);
  bool rowByRow = strides[axes - 1] == 1;
  for (int axis = 1; axis < axes; ++axis)
    rowByRow &= strides[axis - 1] == strides[axis] * dims[axis];
  return type == cudnnFloat && axes == 4 && rowByRow ? 0 : refused;
}

int setFilter(Handle handle, int type, int order, int axes, const int *dims) {
  of(handle).dims.assign(dims, dims + axes);
  return type == cudnnFloat && order == cudnnRowMajor && axes == 4 ? 0 : refused;
}

int setConvolution(Handle handle, int axes, const int *padding, const int *strides,
                   const int *dilations, int mode, int type) {
  of(handle).padding.assign(padding, padding + axes);
  of(handle).strides.assign(strides, strides + axes);
  of(handle).dilations.assign(dilations, dilations + axes);
  return mode == cudnnCrossCorrelation && type == cudnnFloat ? 0 : refused;
}

int setPooling(Handle handle, int mode, int, int axes, const int *kernel, const int *padding,
               const int *strides) {
  of(handle) = {{1, 1, kernel[0], kernel[1]},
                {padding, padding + axes},
                {strides, strides + axes},
                {1, 1},
                1,
                0,
                mode};
  return axes == 2 ? 0 : refused;
}

/// body(place in x, place in w, place in y) for each product of a convolution; with `windows` alone
/// the channels go by themselves.
template <typename Body>
void eachProduct(const Described &x, const Described &w, const Described &y,
                 const Described &windows, bool channelwise, Body body) {
  int inputs = channelwise ? 1 : w.dims[1], perGroup = y.dims[1] / windows.groups;
  for (int n = 0; n < y.dims[0]; ++n)
    for (int o = 0; o < y.dims[1]; ++o)
      for (int i = 0; i < y.dims[2]; ++i)
        for (int j = 0; j < y.dims[3]; ++j)
          for (int c = 0; c < inputs; ++c)
            for (int p = 0; p < w.dims[2]; ++p)
              for (int q = 0; q < w.dims[3]; ++q) {
                int row = i * windows.strides[0] + p * windows.dilations[0] - windows.padding[0];
                int column = j * windows.strides[1] + q * windows.dilations[1] - windows.padding[1];
                int channel = channelwise ? o : o / perGroup * inputs + c;
                if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3])
                  continue;
                body(((n * x.dims[1] + channel) * x.dims[2] + row) * x.dims[3] + column,
                     ((o * inputs + c) * w.dims[2] + p) * w.dims[3] + q,
                     ((n * y.dims[1] + o) * y.dims[2] + i) * y.dims[3] + j);
              }
}

int count(const Described &tensor) {
  int result = 1;
  for (int dim : tensor.dims)
    result *= dim;
  return result;
}

constexpr int theAlgorithm = 4;
constexpr size_t itsWorkspace = 64;

/// A fast one that fails, the one, and one that would be fastest with more room than there is.
int find(int requested, int *returned, CudnnPerformance *results, size_t workspace, int math) {
  std::vector<CudnnPerformance> all(3);
  all[0] = {1, 9, -1, 0, 0, math, {}};
  all[1] = {theAlgorithm, 0, 0.5f, itsWorkspace, 0, math, {}};
  all[2] = {2, 0, 0.25f, workspace + 1, 0, math, {}};
  *returned = std::min(requested, int(all.size()));
  std::copy_n(all.begin(), *returned, results);
  return 0;
}

bool fits(Handle convolution, int algorithm, const void *workspace, size_t bytes) {
  return algorithm == theAlgorithm && workspace && bytes == itsWorkspace &&
         of(convolution).math == cudnnFma;
}

int convolve(Handle, const void *, Handle x, const void *source, Handle w, const void *weights,
             Handle convolution, int algorithm, void *workspace, size_t bytes, const void *,
             Handle y, void *target) {
  std::fill_n(out(target), count(of(y)), 0.0f);
  eachProduct(of(x), of(w), of(y), of(convolution), false,
              [&](int i, int j, int k) { out(target)[k] += in(source)[i] * in(weights)[j]; });
  return fits(convolution, algorithm, workspace, bytes) ? 0 : refused;
}

int backwardData(Handle, const void *, Handle w, const void *weights, Handle y,
                 const void *arriving, Handle convolution, int algorithm, void *workspace,
                 size_t bytes, const void *, Handle x, void *gradient) {
  std::fill_n(out(gradient), count(of(x)), 0.0f);
  eachProduct(of(x), of(w), of(y), of(convolution), false,
              [&](int i, int j, int k) { out(gradient)[i] += in(arriving)[k] * in(weights)[j]; });
  return fits(convolution, algorithm, workspace, bytes) ? 0 : refused;
}

int backwardFilter(Handle, const void *, Handle x, const void *source, Handle y,
                   const void *arriving, Handle convolution, int algorithm, void *workspace,
                   size_t bytes, const void *, Handle w, void *gradient) {
  std::fill_n(out(gradient), count(of(w)), 0.0f);
  eachProduct(of(x), of(w), of(y), of(convolution), false,
              [&](int i, int j, int k) { out(gradient)[j] += in(source)[i] * in(arriving)[k]; });
  return fits(convolution, algorithm, workspace, bytes) ? 0 : refused;
}

/// How many values the window of each result has.
std::vector<int> sizesOf(const Described &windows, const Described &x, const Described &y) {
  std::vector<int> sizes(count(y));
  eachProduct(x, windows, y, windows, true, [&](int, int, int k) { ++sizes[k]; });
  if (windows.mode == cudnnAverageWithPadding)
    std::fill(sizes.begin(), sizes.end(), windows.dims[2] * windows.dims[3]);
  return sizes;
}

int pool(Handle, Handle windows, const void *, Handle x, const void *source, const void *, Handle y,
         void *target) {
  bool maximum = of(windows).mode == cudnnMaximum;
  std::vector<int> sizes = sizesOf(of(windows), of(x), of(y));
  std::fill_n(out(target), count(of(y)), maximum ? -INFINITY : 0.0f);
  eachProduct(of(x), of(windows), of(y), of(windows), true, [&](int i, int, int k) {
    float &place = out(target)[k], value = in(source)[i];
    place = maximum ? std::max(place, value) : place + value / float(sizes[k]);
  });
  return 0;
}

int poolBackward(Handle, Handle windows, const void *, Handle y, const void *result, Handle,
                 const void *arriving, Handle x, const void *source, const void *, Handle,
                 void *gradient) {
  bool maximum = of(windows).mode == cudnnMaximum;
  std::vector<int> sizes = sizesOf(of(windows), of(x), of(y));
  std::fill_n(out(gradient), count(of(x)), 0.0f);
  eachProduct(of(x), of(windows), of(y), of(windows), true, [&](int i, int, int k) {
    if (!maximum)
      out(gradient)[i] += in(arriving)[k] / float(sizes[k]);
    else if (in(source)[i] == in(result)[k])
      out(gradient)[i] += in(arriving)[k];
  });
  return 0;
}

/// body(channel, place) for each value.
template <typename Body> void eachValue(const Described &x, Body body) {
  int places = x.dims[2] * x.dims[3];
  for (int i = 0; i < count(x); ++i)
    body(i / places % x.dims[1], i);
}

int normalize(Handle, int mode, const void *, const void *, Handle x, const void *source, Handle,
              void *target, Handle parameters, const void *scale, const void *shift, double, void *,
              void *, double epsilon, void *mean, void *inverse) {
  int channels = of(x).dims[1];
  double size = double(count(of(x))) / channels;
  std::vector<double> sums(channels), squares(channels);
  eachValue(of(x), [&](int c, int i) { sums[c] += in(source)[i] / size; });
  eachValue(of(x),
            [&](int c, int i) { squares[c] += std::pow(in(source)[i] - sums[c], 2) / size; });
  for (int c = 0; c < channels; ++c) {
    out(mean)[c] = float(sums[c]);
    out(inverse)[c] = float(1 / std::sqrt(squares[c] + epsilon));
  }
  eachValue(of(x), [&](int c, int i) {
    out(target)[i] = (in(source)[i] - in(mean)[c]) * in(inverse)[c] * in(scale)[c] + in(shift)[c];
  });
  bool described = of(parameters).dims == std::vector<int>{1, channels, 1, 1};
  return mode == cudnnSpatialNormal && described ? 0 : refused;
}

int normalizeBackward(Handle, int, const void *, const void *, const void *, const void *, Handle x,
                      const void *source, Handle, const void *arriving, Handle, void *gradient,
                      Handle, const void *scale, void *dscale, void *dshift, double,
                      const void *mean, const void *inverse) {
  int channels = of(x).dims[1];
  double size = double(count(of(x))) / channels;
  auto normal = [&](int c, int i) { return (in(source)[i] - in(mean)[c]) * in(inverse)[c]; };
  std::fill_n(out(dscale), channels, 0.0f);
  std::fill_n(out(dshift), channels, 0.0f);
  eachValue(of(x), [&](int c, int i) {
    out(dscale)[c] += in(arriving)[i] * normal(c, i);
    out(dshift)[c] += in(arriving)[i];
  });
  eachValue(of(x), [&](int c, int i) {
    double common = (in(dshift)[c] + normal(c, i) * in(dscale)[c]) / size;
    out(gradient)[i] = float(in(scale)[c] * in(inverse)[c] * (in(arriving)[i] - common));
  });
  return 0;
}
} // namespace

Cudnn emulatedCudnn() {
  Cudnn functions;
  functions.create = functions.createTensor = functions.createFilter = create;
  functions.createConvolution = functions.createPooling = create;
  functions.destroy = functions.destroyTensor = functions.destroyFilter = destroy;
  functions.destroyConvolution = functions.destroyPooling = destroy;
  functions.setStream = [](Handle, void *) { return 0; };
  functions.version = [] { return size_t(91900); };
  functions.errorString = [](int) { return "refused"; };
  functions.setTensor = setTensor;
  functions.setFilter = setFilter;
  functions.setConvolution = setConvolution;
  functions.setConvolutionMath = [](Handle handle, int math) { return of(handle).math = math, 0; };
  functions.setConvolutionGroups = [](Handle handle, int groups) {
    return of(handle).groups = groups, 0;
  };
  functions.findForward = [](Handle, Handle, const void *, Handle, const void *, Handle convolution,
                             Handle, void *, int requested, int *returned,
                             CudnnPerformance *results, void *, size_t bytes) {
    return find(requested, returned, results, bytes, of(convolution).math);
  };
  functions.findBackwardData = functions.findBackwardFilter = functions.findForward;
  functions.convolve = convolve;
  functions.convolveBackwardData = backwardData;
  functions.convolveBackwardFilter = backwardFilter;
  functions.setPooling = setPooling;
  functions.pool = pool;
  functions.poolBackward = poolBackward;
  functions.normalize = normalize;
  functions.normalizeBackward = normalizeBackward;
  return functions;
}

} // namespace heterplan::kernels::cuda
