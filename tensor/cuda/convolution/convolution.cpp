// A convolution is a graph of one operation; in channels-last layout bias, sum and relu stand in the same
// graph, in others they are passes of their own, of a half type's f32 result. Plans are kept by all that they
// depend on.
#include "tensor/cuda/convolution/convolution.h"

#include <map>
#include <memory>
#include <tuple>

#include "tensor/channels_last.h"
#include "tensor/cuda/convolution/cudnn.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/error.h"

namespace tessera::kernels::cuda {
namespace {

using cuda_runtime::CudnnDescriptor;
using cuda_runtime::CudnnPlan;
using Sizes = std::vector<int64_t>;

/// The numbers of tensors in a graph.
enum Id : int64_t { x_id = 1, weight_id, y_id, bias_id, added_id, first_between };

enum class Kind { forward, input_gradient, weight_gradient };

/// A tensor as a graph sees it.
struct Place {
  Sizes dims, strides;
  DType dtype = DType::f32;
  int64_t alignment = 0;

  auto key() const { return std::tie(dims, strides, dtype, alignment); }
  bool operator<(const Place& other) const { return key() < other.key(); }
};

/// All that a plan depends on.
struct Problem {
  Kind kind;
  ConvolutionGeometry geometry;
  Place x, weight, y;
  bool has_bias = false, has_added = false, relu = false, accumulate = false;

  auto key() const {
    const ConvolutionGeometry& g = geometry;
    return std::tie(kind, g.ndim, g.in, g.out, g.kernel, g.stride, g.padding, g.dilation, x, weight, y,
                    has_bias, has_added, relu, accumulate);
  }
  bool operator<(const Problem& other) const { return key() < other.key(); }
};

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f16:
      return CUDNN_DATA_HALF;
    default:
      throw NotBuiltError(text("convolution: this build has no kernel for ", dtype, " on cuda"));
  }
}

/// The largest power of two, up to 16, that divides an address.
int64_t alignment_of(const void* address) {
  const auto low = static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) | 16);
  return low & -low;
}

Place place_of(const Tensor& tensor) {
  return {Sizes(tensor.shape().begin(), tensor.shape().end()),
          Sizes(tensor.strides().begin(), tensor.strides().end()), tensor.dtype(),
          alignment_of(tensor.raw_data())};
}

/// The extent of x in a dimension that the windows see. cuDNN wants as many windows as fit; a geometry with
/// output padding above the stride has fewer of them.
int64_t seen_extent(const ConvolutionGeometry& g, size_t i) {
  const int64_t seen = (g.out[i] - 1) * g.stride[i] + g.dilation[i] * (g.kernel[i] - 1) + 1 - g.padding[i];
  return g.in[i] - seen >= g.stride[i] ? seen : g.in[i];
}

/// Builds a problem's graph.
class Builder {
 public:
  explicit Builder(const Problem& problem) : problem_(problem) {}

  std::unique_ptr<CudnnPlan> plan(const char* name, Device device) {
    const cudnnBackendDescriptor_t x = tensor(x_id, problem_.x, false),
                                   weight = tensor(weight_id, problem_.weight, false);
    const bool has_epilogue = problem_.has_bias || problem_.has_added || problem_.relu;
    const cudnnBackendDescriptor_t y = has_epilogue ? between() : tensor(y_id, problem_.y, false);
    convolve(x, weight, y);
    if (has_epilogue) add_epilogue(y);
    return std::make_unique<CudnnPlan>(name, device, std::move(parts_), operations_);
  }

 private:
  bool is_wide() const { return problem_.x.dtype == DType::f64; }

  const CudnnDescriptor& part(cudnnBackendDescriptorType_t type) { return parts_.emplace_back(type); }

  cudnnBackendDescriptor_t tensor(int64_t id, const Place& place, bool is_virtual) {
    const CudnnDescriptor& made = part(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(place.dtype))
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, place.dims)
        .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, place.strides)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, place.alignment)
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
    made.finalize();
    return made.get();
  }
  /// y's value between two operations, in f32.
  cudnnBackendDescriptor_t between() {
    Place place = problem_.y;
    place.dtype = DType::f32;
    place.alignment = 16;
    return tensor(next_id_++, place, true);
  }

  void convolve(cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t weight, cudnnBackendDescriptor_t y);
  void add_epilogue(cudnnBackendDescriptor_t y);
  cudnnBackendDescriptor_t pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t a,
                                     cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t out);

  const Problem& problem_;
  std::vector<CudnnDescriptor> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  int64_t next_id_ = first_between;
};

/// An operation's kind, and its attributes for the description, alpha, beta, x, the weight and y.
struct Attributes {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t description, alpha, beta, x, weight, y;
};

Attributes attributes_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case Kind::input_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  }
}

void Builder::convolve(cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t weight,
                       cudnnBackendDescriptor_t y) {
  const ConvolutionGeometry& g = problem_.geometry;
  const auto spatial = [&](const SpatialValues& values) {
    return Sizes(values.end() - g.ndim, values.end());
  };
  SpatialValues after{};  // zeros behind x follow from y's extents
  for (size_t i = 0; i < after.size(); ++i)
    after[i] = std::max<int64_t>(
        0, (g.out[i] - 1) * g.stride[i] + g.dilation[i] * (g.kernel[i] - 1) + 1 - g.in[i] - g.padding[i]);
  const CudnnDescriptor& how = part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
          is_wide() ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, static_cast<int64_t>(g.ndim))
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, spatial(g.padding))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial(after))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial(g.stride))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial(g.dilation));
  how.finalize();
  const Attributes a = attributes_of(problem_.kind);
  const double beta = problem_.accumulate ? 1 : 0;
  const cudnnBackendDescriptor_t description = how.get();
  const CudnnDescriptor& made = part(a.type);
  made.set(a.description, CUDNN_TYPE_BACKEND_DESCRIPTOR, description)
      .set(a.x, CUDNN_TYPE_BACKEND_DESCRIPTOR, x)
      .set(a.weight, CUDNN_TYPE_BACKEND_DESCRIPTOR, weight)
      .set(a.y, CUDNN_TYPE_BACKEND_DESCRIPTOR, y);
  if (is_wide())
    made.set(a.alpha, CUDNN_TYPE_DOUBLE, 1.0).set(a.beta, CUDNN_TYPE_DOUBLE, beta);
  else
    made.set(a.alpha, CUDNN_TYPE_FLOAT, 1.0f).set(a.beta, CUDNN_TYPE_FLOAT, static_cast<float>(beta));
  made.finalize();
  operations_.push_back(made.get());
}

cudnnBackendDescriptor_t Builder::pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t a,
                                            cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t out) {
  const CudnnDescriptor& how = part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finalize();
  const cudnnBackendDescriptor_t description = how.get();
  const CudnnDescriptor& made = part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, description)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, a)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, out);
  if (b != nullptr) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, b);
  made.finalize();
  operations_.push_back(made.get());
  return out;
}

void Builder::add_epilogue(cudnnBackendDescriptor_t y) {
  int left = (problem_.has_bias ? 1 : 0) + (problem_.has_added ? 1 : 0) + (problem_.relu ? 1 : 0);
  const auto next = [&] { return --left == 0 ? tensor(y_id, problem_.y, false) : between(); };
  if (problem_.has_bias) {
    Place bias = problem_.y;
    for (size_t i = 0; i < bias.dims.size(); ++i) {
      if (i != 1) bias.dims[i] = 1;
      bias.strides[i] = i == 1 ? 1 : problem_.y.dims[1];
    }
    bias.alignment = size_of(bias.dtype);
    y = pointwise(CUDNN_POINTWISE_ADD, y, tensor(bias_id, bias, false), next());
  }
  if (problem_.has_added) {
    Place added = problem_.y;
    added.alignment = size_of(added.dtype);
    y = pointwise(CUDNN_POINTWISE_ADD, y, tensor(added_id, added, false), next());
  }
  if (problem_.relu) pointwise(CUDNN_POINTWISE_RELU_FWD, y, nullptr, next());
}

/// This thread's plans: a plan belongs to a handle, and that to a thread.
const CudnnPlan& plan_for(const char* name, const Problem& problem, Device device) {
  // The handle is made before the plans, and so destroyed after them.
  cuda_runtime::cudnn_handle(device);
  thread_local std::map<std::pair<int, Problem>, std::unique_ptr<CudnnPlan>> plans;
  std::unique_ptr<CudnnPlan>& plan = plans[{device.index, problem}];
  if (!plan) plan = Builder(problem).plan(name, device);
  return *plan;
}

Problem problem_of(Kind kind, const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
                   const Tensor& y) {
  Problem problem{
      .kind = kind, .geometry = g, .x = place_of(x), .weight = place_of(weight), .y = place_of(y)};
  for (size_t i = 3 - static_cast<size_t>(g.ndim); i < 3; ++i)
    problem.x.dims[i + static_cast<size_t>(g.ndim) - 1] = seen_extent(g, i);
  return problem;
}

/// A convolution alone.
void run(const char* name, const Problem& problem, const Tensor& x, const Tensor& weight, const Tensor& y) {
  const Device device = y.device();
  plan_for(name, problem, device)
      .execute(device, {x_id, weight_id, y_id}, {x.raw_data(), weight.raw_data(), y.raw_data()});
}

Tensor dense(const Tensor& x) {
  return x.is_contiguous() || is_channels_last(x) ? x : x.contiguous();
}

/// relu(y + bias + added) in y's dtype or wider, in passes of their own.
void finish(const Tensor& sums, const Tensor& bias, const Tensor& added, bool relu, const Tensor& y) {
  const DType dtype = sums.dtype();
  if (bias.defined()) {
    Shape shape = Shape::filled(sums.ndim(), 1);
    shape[1] = bias.numel();
    binary(BinaryOp::add, dtype, sums, as_dtype(bias, dtype).reshape(shape).expand(sums.shape()), sums);
  }
  if (added.defined()) binary(BinaryOp::add, dtype, sums, as_dtype(added, dtype), sums);
  if (relu) unary(UnaryOp::relu, dtype, sums, sums);
  if (sums.dtype() != y.dtype()) cast(sums, y);
}

}  // namespace

void convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& added, bool relu, const Tensor& y) {
  const char* const name = "convolution";
  const Tensor image = dense(x);
  const bool has_epilogue = bias.defined() || added.defined() || relu;
  const bool is_fused = has_epilogue && is_channels_last(image) && is_channels_last(y) && y.dtype() != f64 &&
                        (!bias.defined() || bias.dtype() == y.dtype());
  if (!has_epilogue) return run(name, problem_of(Kind::forward, g, image, weight, y), image, weight, y);
  if (!is_fused) {
    const bool is_half = size_of(y.dtype()) == 2;
    const Tensor sums = is_half ? empty_in_layout(is_channels_last(y), y.shape(), f32, y.device()) : y;
    run(name, problem_of(Kind::forward, g, image, weight, sums), image, weight, sums);
    return finish(sums, bias, added, relu, y);
  }
  const Tensor filter = in_layout(true, weight);  // as the fused engines need it
  Problem problem = problem_of(Kind::forward, g, image, filter, y);
  problem.has_bias = bias.defined();
  problem.has_added = added.defined();
  problem.relu = relu;
  std::vector<int64_t> ids{x_id, weight_id, y_id};
  std::vector<void*> pointers{image.raw_data(), filter.raw_data(), y.raw_data()};
  if (bias.defined()) {
    ids.push_back(bias_id);
    pointers.push_back(bias.raw_data());
  }
  if (added.defined()) {
    ids.push_back(added_id);
    pointers.push_back(added.raw_data());
  }
  plan_for(name, problem, y.device()).execute(y.device(), ids, pointers);
}

void convolution_input_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight,
                                const Tensor& dx) {
  for (size_t i = 0; i < 3; ++i)
    if (seen_extent(g, i) != g.in[i]) {
      zero(dx);  // behind the last window
      break;
    }
  run("convolution_input_gradient", problem_of(Kind::input_gradient, g, dx, weight, dy), dx, weight, dy);
}

/// cuDNN gives the gradient in its operands' type; a sum in f32 is computed from operands in f32.
void convolution_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                                 bool accumulate, const Tensor& dw) {
  const Tensor image = as_dtype(dense(x), dw.dtype()), gradient = as_dtype(dy, dw.dtype());
  Problem problem = problem_of(Kind::weight_gradient, g, image, dw, gradient);
  problem.accumulate = accumulate;
  run("convolution_weight_gradient", problem, image, dw, gradient);
}

}  // namespace tessera::kernels::cuda
